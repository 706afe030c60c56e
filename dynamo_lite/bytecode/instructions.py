"""The decoded form of bytecode, and the tables of opcodes that differ between versions."""

from __future__ import annotations

import dis
import opcode as _opcode
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PY312 = sys.version_info >= (3, 12)

Positions = tuple["int | None", "int | None", "int | None", "int | None"]


class BytecodeError(Exception):
    """Instructions that no code object can be made of."""


@dataclass(eq=False, slots=True)
class Handler:
    """A row of the exception table: where the handler is, how deep the stack is there, whether it wants the offset."""

    target: Instruction
    depth: int
    lasti: bool


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction, without caches and EXTENDED_ARG.

    ``argval`` is what ``arg`` stands for: a constant, a name, a comparison's symbol. ``flag`` is the low bit of ``arg``
    where that is one (LOAD_GLOBAL's NULL, LOAD_ATTR's and LOAD_SUPER_ATTR's method); ``flag2`` LOAD_SUPER_ATTR's second.
    """

    opcode: int
    opname: str
    arg: int | None = None
    argval: Any = None
    target: Instruction | None = None
    flag: bool = False
    index: int = -1
    offset: int = -1
    positions: Positions | None = None
    handler: Handler | None = None
    flag2: bool = False

    def __repr__(self) -> str:
        where = f" to {self.target.index}" if self.target is not None else ""
        value = f" {self.argval!r}" if self.argval is not None else (f" {self.arg}" if self.arg is not None else "")
        return f"<{self.opname}{value}{where}>"


HAVE_ARGUMENT = dis.HAVE_ARGUMENT
CACHES: list[int] = list(_opcode._inline_cache_entries)  # type: ignore[attr-defined]
"""Opcode -> how many CACHE units follow it."""

HAS_CONST = frozenset(dis.hasconst)
HAS_NAME = frozenset(dis.hasname)
HAS_JUMP = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
HAS_LOCAL = frozenset(dis.haslocal)
HAS_FREE = frozenset(dis.hasfree)
HAS_COMPARE = frozenset(dis.hascompare)

KW_NAMES = dis.opmap["KW_NAMES"]
COPY_FREE_VARS = dis.opmap["COPY_FREE_VARS"]

FLAG_BITS: dict[int, int] = {dis.opmap["LOAD_GLOBAL"]: 1}
"""Opcode -> how many low bits of its argument are flags."""
if PY312:
    FLAG_BITS[dis.opmap["LOAD_ATTR"]] = 1
    FLAG_BITS[dis.opmap["LOAD_SUPER_ATTR"]] = 2

TERMINATORS = frozenset(
    dis.opmap[name]
    for name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT")
    if name in dis.opmap
)
JUMPS_ALWAYS = frozenset(
    dis.opmap[name] for name in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT") if name in dis.opmap
)
ENDS_BLOCK = TERMINATORS | JUMPS_ALWAYS

COMPARE_SHIFT = 4 if PY312 else 0

BINARY_OPS: dict[int, tuple[str, Callable[[Any, Any], Any], bool]] = {}
"""BINARY_OP's argument -> (symbol, function, whether in place)."""
_FUNCTIONS = {
    "+": "add",
    "&": "and_",
    "//": "floordiv",
    "<<": "lshift",
    "@": "matmul",
    "*": "mul",
    "%": "mod",
    "|": "or_",
    "**": "pow",
    ">>": "rshift",
    "-": "sub",
    "/": "truediv",
    "^": "xor",
}
for _arg, (_name, _symbol) in enumerate(_opcode._nb_ops):  # type: ignore[attr-defined]
    _plain = _symbol.rstrip("=")
    _function = _FUNCTIONS[_plain]
    _inplace = _symbol.endswith("=")
    BINARY_OPS[_arg] = (_symbol, getattr(operator, "i" + _function.rstrip("_") if _inplace else _function), _inplace)

COMPARE_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
