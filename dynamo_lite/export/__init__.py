"""Whole programs as graph modules: ``dl.export``.

Enters: a function or module and example arguments.
Leaves: a graph module with the program's own signature, and the guards it holds under.
May import: every room but the public names.
"""
