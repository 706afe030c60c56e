"""What generated code and graphs call when they run, and what has to hold of the interpreter they run in.

Enters: real tensors and values of a call.
Leaves: the results of that call.
May import: nothing above the ground (`exc`, `config`, `logs`, `insight`).
"""
