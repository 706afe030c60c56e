"""The decoded form of bytecode, and the tables in which the versions of CPython differ.

Everything that a version changes is data here: the kind of each opcode's operand, flag bits, caches, stack effects, the
names of jumps. The rest of the package asks these tables and not the version.
"""

from __future__ import annotations

import dis
import opcode as _opcode
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

PY312 = sys.version_info >= (3, 12)

Positions = tuple["int | None", "int | None", "int | None", "int | None"]
"""First and last line (from 1), first and last column (bytes, from 0)."""


class BytecodeError(Exception):
    """Instructions that no code object can be made of, or a code object that would crash the interpreter."""


@dataclass(eq=False, slots=True)
class Handler:
    """A row of the exception table: where the handler is, how deep the stack is there, whether it wants the offset.

    The stack at ``target`` is ``depth`` values, the offset if ``lasti``, the exception. Not to be changed once made:
    the instructions of one range share it.
    """

    target: Instruction
    depth: int
    lasti: bool


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction, without caches and EXTENDED_ARG. Two are equal only if they are the same object.

    Attributes:
        arg: the number it carries; what `assemble` puts there is worked out anew, except for plain numbers.
        argval: what ``arg`` stands for: a constant, a name, a comparison's symbol, or the number itself.
        target: where it jumps to, for jumps.
        flag: the low bit of ``arg`` where that is one (LOAD_GLOBAL's NULL; LOAD_ATTR's and LOAD_SUPER_ATTR's method).
            Of an instruction on a cell: whether that is the closure's (a free variable) and not the frame's own, which
            matters where both have one name.
        flag2: LOAD_SUPER_ATTR's second bit: ``super`` is called with two arguments.
        index: position in what `decode` returned; -1 if it was made.
        offset: in bytes in the code object it comes from; -1 if it was made.
        handler: the row of the exception table that covers it.
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
        if self.target is not None:
            return f"<{self.opname} to {self.target.opname} {self.target.index}>"
        return f"<{self.opname} {show(self.argval)}>" if self.opcode in HAS_ARG else f"<{self.opname}>"


def show(value: Any) -> str:
    """A constant or name in words that are the same in each run: no addresses, no order of a set, no user's repr."""
    kind = type(value)
    if kind in (int, float, complex, str, bytes, bool, type(None), type(Ellipsis)):
        return repr(value)
    if kind is tuple:
        return f"({', '.join(map(show, value))}{',' if len(value) == 1 else ''})"
    if kind is frozenset:
        return f"frozenset({{{', '.join(sorted(map(show, value)))}}})"
    if kind is CodeType:
        return f"<code {value.co_qualname}>"
    return f"<{kind.__name__}>"


# -- operands --------------------------------------------------------------------------------------------------

HAS_ARG = frozenset(range(dis.HAVE_ARGUMENT, 256))
CACHES: list[int] = list(_opcode._inline_cache_entries)  # type: ignore[attr-defined]
"""Opcode -> how many CACHE units follow it."""

FLAG_BITS: dict[int, int] = {dis.opmap["LOAD_GLOBAL"]: 1}
"""Opcode -> how many low bits of its argument are flags."""
if PY312:
    FLAG_BITS[dis.opmap["LOAD_ATTR"]] = 1
    FLAG_BITS[dis.opmap["LOAD_SUPER_ATTR"]] = 2

NOTHING, NUMBER, CONST, NAME, LOCAL, FREE, COMPARE, JUMP, FREE_COUNT = range(9)
"""Kinds of operand. FREE: a cell, the frame's or the closure's. FREE_COUNT: how many cells the closure has."""

KIND: list[int] = [NUMBER if op in HAS_ARG else NOTHING for op in range(256)]
"""Opcode -> the kind of its operand."""
for _kind, _opcodes in (
    (CONST, [*dis.hasconst, dis.opmap["KW_NAMES"]]),
    (NAME, dis.hasname),
    (LOCAL, dis.haslocal),
    (FREE, dis.hasfree),
    (COMPARE, dis.hascompare),
    (JUMP, [*dis.hasjrel, *dis.hasjabs]),
    (FREE_COUNT, [dis.opmap["COPY_FREE_VARS"]]),
):
    for _op in _opcodes:
        if _op < 256:  # dis knows the compiler's own, too
            KIND[_op] = _kind

COMPARE_SHIFT = 4 if PY312 else 0
COMPARE_MASKS: dict[str, int] = (
    {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12} if PY312 else dict.fromkeys(dis.cmp_op, 0)
)
"""What COMPARE_OP carries below the operator: outcomes for which it holds (1 unordered, 2 less, 4 greater, 8 equal).
The specialised forms look at these bits and at nothing else."""

# -- control flow ----------------------------------------------------------------------------------------------


def _opcodes_of(*names: str) -> frozenset[int]:
    return frozenset(dis.opmap[name] for name in names if name in dis.opmap)


TERMINATORS = _opcodes_of("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT")
JUMPS_ALWAYS = _opcodes_of("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
ENDS_BLOCK = TERMINATORS | JUMPS_ALWAYS
JUMPS_BACK = frozenset(op for name, op in dis.opmap.items() if op < 256 and "BACKWARD" in name)

DIRECTIONS: dict[int, tuple[int | None, int | None]] = {}
"""Jump -> the opcodes that do it (forward, backward); None: there is none."""
for _op in range(256):
    if KIND[_op] != JUMP:
        continue
    _name = dis.opname[_op]
    if _op in JUMPS_ALWAYS:
        _back = _name if _op in JUMPS_BACK else "JUMP_BACKWARD"
        DIRECTIONS[_op] = dis.opmap["JUMP_FORWARD"], dis.opmap[_back]
    elif "_BACKWARD_" in _name or "_FORWARD_" in _name:
        _test = _name.rpartition("_IF_")[2]
        DIRECTIONS[_op] = dis.opmap[f"POP_JUMP_FORWARD_IF_{_test}"], dis.opmap[f"POP_JUMP_BACKWARD_IF_{_test}"]
    else:
        DIRECTIONS[_op] = _op, None

FOR_ITER = dis.opmap["FOR_ITER"]
END_FOR: int | None = dis.opmap.get("END_FOR")
"""Where there is one, FOR_ITER must jump to it: the evaluator goes to what comes after it without looking."""

POP_JUMP = "POP_JUMP_IF_" if PY312 else "POP_JUMP_FORWARD_IF_"
"""What the names of conditional jumps begin with."""

HAS_PRECALL = "PRECALL" in dis.opmap

EFFECTS: dict[int, Callable[[int], int]] = {
    # dis counts none: the value that is sent first is there when a generator starts.
    dis.opmap["RETURN_GENERATOR"]: lambda arg: 1,
}
"""Opcode -> the change of the stack's depth by its argument, where dis.stack_effect says something else."""
if HAS_PRECALL:  # dis lets PRECALL take the arguments away
    EFFECTS[dis.opmap["PRECALL"]] = lambda arg: 0
    EFFECTS[dis.opmap["CALL"]] = lambda arg: -arg - 1

# -- operators -------------------------------------------------------------------------------------------------

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
    _function = _FUNCTIONS[_symbol.rstrip("=")]
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
"""COMPARE_OP's symbol -> function."""

EXCEPT_STAR = ("CHECK_EG_MATCH", "PREP_RERAISE_STAR")
"""Opcodes of ``except*`` alone."""
