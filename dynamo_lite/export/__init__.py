"""``dl.export``: captures a whole program as one graph module.

Enters: a function or module and example arguments.
Leaves: a graph module with the program's signature, which checks its guards.
May import: every room but the public names.
"""
