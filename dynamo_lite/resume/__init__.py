"""Continuing a frame after a graph break: resume functions, suspended contexts, generators and iterators.

Enters: a translator that stopped before an instruction.
Leaves: bytecode that runs the instruction in CPython and returns a continuation: a resume function and its live values.
May import: `planner`, `codegen`, `attempt`, `variables` and what is below them.
"""
