"""What is known of a value while tracing, and what operations on it do.

Enters: real values with the sources they were reached by, and results of operators.
Leaves: trackers (`VariableTracker`), which record operators in the graph, guards on their sources and side effects.
May import: `records`, `shapes`, `runtime`. Its own rooms, lowest first: `polyfills`, `core`, `python`, `torch`, `numpy`
and `stdlib`; importing `kinds` registers them all.
"""
