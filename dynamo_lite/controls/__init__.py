"""Settings of the whole process, made through our functions or through torch.compile's.

Enters: `set_stance`, calls of ``torch.compiler``, results of ``torch.compile``. Leaves: whether calls run compiled
code, and what happens at a miss.
"""
