"""What a translation leaves, as far as it knows no tracker: guards, the graph, the fake tensors of its operators.

Enters: facts that trackers used, operators that they recorded.
Leaves: a `GuardTree`, an ``fx.GraphModule``, and facts for another attempt.
May import: `shapes`, `sources`, `runtime`.
"""
