"""The symbolic interpreter of CPython bytecode: one handler an opcode.

Enters: a code object, trackers of its locals and cells, and the step at which to break, if an earlier attempt broke.
Leaves: in an `Attempt`, graph, guards and side effects; and the trackers on the stack and in the locals where it ended.
May import: `resume`, `codegen`, `attempt`, `variables` and what is below them.
"""
