"""What a translation leaves: guards, the graph, side effects, and the fake tensors of its operators.

Enters: facts that trackers used, operators they recorded, writes they made.
Leaves: a `GuardTree`, an ``fx.GraphModule`` and a log of side effects.
May import: `shapes`, `sources`, `runtime`.
"""
