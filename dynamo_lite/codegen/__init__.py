"""Records to bytecode: call the graph, replay the side effects, load values.

Enters: the records of an attempt and the trackers that are live where it ended.
Leaves: instructions for `bytecode` to assemble.
May import: `variables`, `records`, `shapes`, `bytecode`, `runtime`.
"""
