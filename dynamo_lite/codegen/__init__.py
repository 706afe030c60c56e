"""Rows of a plan to bytecode: total, and without trackers.

Enters: rows (`plan`), and the compiled graph's call.
Leaves: instructions for `bytecode` to assemble.
May import: `plan`, `records`, `bytecode`, `runtime`.
"""
