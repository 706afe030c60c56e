"""What ``dl.compile`` and ``dl.disable`` return: functions and modules that call the original for an owner.

What enters are a function or module, its owner, and what compiles a copy of it; what leaves behaves as the original
does to its callers, to `copy` and `pickle`, to torch.compile, and says what is cached for it. It imports the trackers'
base to tell traces what it is, and what lies below.
"""
