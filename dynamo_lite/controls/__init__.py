"""Settings of the whole process, made through our functions or through torch.compile's.

Enters: `set_stance`, calls of ``torch.compiler``, results of ``torch.compile``. Leaves: whether calls run compiled
code, and what happens at a miss. `errors_at_call` is how public functions raise what they find of their arguments.
"""
