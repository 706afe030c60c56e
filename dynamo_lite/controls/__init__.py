"""What a program sets for the whole process, by our names or by torch.compile's.

Enters: `set_stance`, and what was said to ``torch.compiler``. Leaves: what becomes of calls, hits and misses.
"""
