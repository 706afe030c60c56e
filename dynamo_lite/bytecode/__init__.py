"""CPython bytecode as data: decode, change, assemble. Knows 3.11 and 3.12."""

from . import emit
from .assemble import assemble
from .decode import copy, copy_with_map, decode
from .instructions import BINARY_OPS, COMPARE_OPS, BytecodeError, Handler, Instruction
from .liveness import live_locals
from .stack_depth import drop_unreachable, stack_depths, successors, verify

__all__ = [
    "BINARY_OPS",
    "COMPARE_OPS",
    "BytecodeError",
    "Handler",
    "Instruction",
    "assemble",
    "copy",
    "copy_with_map",
    "decode",
    "drop_unreachable",
    "emit",
    "live_locals",
    "stack_depths",
    "successors",
    "verify",
]
