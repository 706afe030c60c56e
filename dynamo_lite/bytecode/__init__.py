"""CPython bytecode as data: decoding, editing, assembling and verifying, for 3.11 and 3.12.

Enters: code objects, or lists of `Instruction`.
Leaves: instructions, code objects, and analyses of them; predicates (`roles`) and constructors (`emit`), with which
    other rooms read and write bytecode without naming opcodes.
May import: nothing.
"""

from . import emit, roles
from .assemble import assemble
from .decode import copy_with_map, decode
from .instructions import BINARY_OPS, BytecodeError, Handler, Instruction, enclosing_handlers
from .liveness import bound_locals, live_locals
from .references import References, references, references_after
from .stack_depth import drop_unreachable, effect, reachable_from, stack_depths, successors, targets_and_handler
from .verifier import verify

__all__ = [
    "BINARY_OPS",
    "BytecodeError",
    "Handler",
    "Instruction",
    "References",
    "assemble",
    "bound_locals",
    "copy_with_map",
    "decode",
    "drop_unreachable",
    "effect",
    "emit",
    "enclosing_handlers",
    "live_locals",
    "reachable_from",
    "references",
    "references_after",
    "roles",
    "stack_depths",
    "successors",
    "targets_and_handler",
    "verify",
]
