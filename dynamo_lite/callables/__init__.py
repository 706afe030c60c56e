"""What ``dl.compile`` and ``dl.disable`` return: functions and modules that call the original for an owner.

Enters: a function or module, its owner, and a function that compiles a copy of it. Leaves: a callable that behaves like
the original towards callers, `copy`, `pickle` and torch.compile, and lists its cached entries. It imports the base of
the trackers, since traces read a compiled module's ``forward``, and the rooms below.
"""
