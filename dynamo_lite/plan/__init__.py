"""The plan: what the code after a graph does, as data. Rows compare and print, and know neither trackers nor bytecode.

Enters: nothing; `planner` writes rows, and each kind of tracker says by them how its value comes about.
Leaves: rows for `codegen` to emit.
May import: `sources`.
"""
