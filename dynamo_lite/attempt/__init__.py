"""The records of one attempt to translate a frame: what refers to trackers stands here, above them.

Enters: real objects as they are met, writes, and the steps at which values are created.
Leaves: an `Attempt`: graph, guards and side effects, the tracker of each object, and where values come from.
May import: `variables`, `records` and what is below them.
"""
