"""Symbolic sizes, ints and floats: which numbers are symbols, and the facts about them that each call must meet.

Enters: tensors and numbers with their sources; what torch's ``ShapeEnv`` assumed.
Leaves: symbols for fake tensors, and facts as programs that the C++ guards evaluate.
May import: `runtime`.
"""
