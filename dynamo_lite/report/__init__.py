"""`dl.report`: shows what was captured as a page in HTML and a trace for Perfetto.

Enters: the records of `insight.recorder`, which the compiler writes.
Leaves: two files.
May import: `insight` and `logs`; nothing of the compiler.
"""
