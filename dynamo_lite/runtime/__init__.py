"""Functions that generated code and graphs call at run time, and the check of the interpreter and torch.

Enters: real tensors and values of a call.
Leaves: the results of that call.
May import: only `exc`, `config`, `logs` and `insight`.
"""
