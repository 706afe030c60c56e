"""From the end of a trace to a plan: how each live value comes about, and what is written where.

Enters: the records of an attempt and the trackers that are live where it ended.
Leaves: rows (`plan`) for `codegen` to emit, or the step that CPython must run instead.
May import: `attempt`, `variables`, `plan`, `records`, `shapes`, `runtime`.
"""
