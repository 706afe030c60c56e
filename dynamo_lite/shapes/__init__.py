"""Symbolic sizes, ints and floats: which numbers are symbolic, and the guards on them.

Enters: tensors and numbers with their sources; what torch's ``ShapeEnv`` assumed of its symbols.
Leaves: symbols for fake tensors, and guards as postfix programs that C++ evaluates.
May import: `runtime`, `sources`.
"""
