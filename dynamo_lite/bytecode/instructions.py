"""Decoded instructions, and tables of what differs between versions of CPython.

All differences are data here: the kind of each opcode's operand, flag bits, caches, stack effects, names of jumps. The
rest of the package reads these tables and not the version.
"""

from __future__ import annotations

import dis
import opcode as _opcode
import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

PY312 = sys.version_info >= (3, 12)
PY313 = sys.version_info >= (3, 13)
PY314 = sys.version_info >= (3, 14)
PY315 = sys.version_info >= (3, 15)

Positions = tuple["int | None", "int | None", "int | None", "int | None"]
"""Line, end line (from 1), column, end column (in bytes, from 0)."""


class BytecodeError(Exception):
    """Instructions that can't be assembled, or a code object that would crash the interpreter."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A row of the exception table.

    On entry to ``target`` the stack has ``depth`` values, the offset of the raising instruction if ``lasti``, and the
    exception. The instructions of one range share it.
    """

    target: Instruction
    depth: int
    lasti: bool


@dataclass(eq=False, slots=True)
class Instruction:
    """An instruction, without its caches and EXTENDED_ARGs. Equality is identity.

    Attributes:
        arg: its argument. `assemble` recomputes it, except for plain numbers.
        argval: what ``arg`` stands for: a constant, a name, a comparison symbol, or the number itself.
        target: the target of a jump.
        flag: the low bit of ``arg`` if that is a flag (LOAD_GLOBAL's NULL; LOAD_ATTR's and LOAD_SUPER_ATTR's method).
            For an instruction on a cell: whether it is a free variable and not the frame's own cell, which matters if
            both have that name.
        flag2: LOAD_SUPER_ATTR's second bit: ``super`` is called with two arguments. IMPORT_NAME's bits: the statement
            says ``lazy``; it must not be lazy.
        index: its position in the result of `decode`; -1 for a created instruction.
        offset: its offset in bytes in the decoded code object; -1 for a created instruction.
        handler: the row of the exception table that covers it.
    """

    opcode: int
    opname: str
    arg: int = 0
    argval: Any = None
    target: Instruction | None = None
    flag: bool = False
    index: int = -1
    offset: int = -1
    positions: Positions | None = None
    handler: Handler | None = None
    flag2: bool = False

    def copy(self) -> Instruction:
        """A copy with the same target and handler. (`dataclasses.replace` takes ten times as long.)"""
        return Instruction(*_FIELDS(self))

    def __repr__(self) -> str:
        if self.target is not None:
            return f"<{self.opname} to {self.target.opname} {self.target.index}>"
        return f"<{self.opname} {self.argval!r}>" if self.opcode in HAS_ARG else f"<{self.opname}>"


def enclosing_handlers(instruction: Instruction) -> Iterator[Handler]:
    """The handlers of the ``try`` and ``with`` blocks around an instruction, innermost first. (Other handlers cover
    the code of these, and restore the exception that was handled before.)"""
    handler = instruction.handler
    while handler is not None:
        if handler.target.opname == "PUSH_EXC_INFO":
            yield handler
        handler = handler.target.handler


_FIELDS = operator.attrgetter(*(field.name for field in fields(Instruction)))

# -- operands --------------------------------------------------------------------------------------------------

CANONICAL_ONLY: tuple[str, ...] = ("KW_NAMES", "LOAD_CLOSURE") if PY313 else ()
if PY314:
    CANONICAL_ONLY += ("BINARY_SUBSCR", "BEFORE_WITH", "BEFORE_ASYNC_WITH")
"""Canonical opcodes (see `dialect`) that the running version lacks: they have numbers from 256 on."""
OPNAMES: list[str] = [*dis.opname[:256], *CANONICAL_ONLY]
"""Opcode -> its name."""
OPMAP: dict[str, int] = {name: op for name, op in dis.opmap.items() if op < 256}
"""Name -> opcode. (`dis` also has pseudo-instructions of the compiler.)"""
OPMAP.update((name, 256 + at) for at, name in enumerate(CANONICAL_ONLY))


def opcodes_of(*names: str) -> frozenset[int]:
    """The opcodes of these names that there are."""
    return frozenset(OPMAP[name] for name in names if name in OPMAP)


FUSED: dict[int, tuple[int, int]] = {
    OPMAP[f"{first}_{second}"]: (OPMAP[first], OPMAP[second])
    for first, second in (("LOAD_FAST", "LOAD_FAST"), ("STORE_FAST", "LOAD_FAST"), ("STORE_FAST", "STORE_FAST"))
    if f"{first}_{second}" in OPMAP
}
"""Opcode of two instructions, each with half a byte of the argument -> the two."""
BORROWED_PAIR = OPMAP.get("LOAD_FAST_BORROW_LOAD_FAST_BORROW", -1)
"""Two loads that don't count their references, while the variables are surely bound: for us two LOAD_FAST."""
if PY314:
    FUSED[BORROWED_PAIR] = OPMAP["LOAD_FAST"], OPMAP["LOAD_FAST"]

_WITHOUT_ARG = {"BINARY_SUBSCR", "BEFORE_WITH", "BEFORE_ASYNC_WITH"}
HAS_ARG = frozenset(range(dis.HAVE_ARGUMENT, 256)) | opcodes_of(
    *("MAKE_FUNCTION", "CALL_FUNCTION_EX"), *(name for name in CANONICAL_ONLY if name not in _WITHOUT_ARG)
)
_caches: Any = _opcode._inline_cache_entries  # type: ignore[attr-defined]
CACHES: list[int] = [_caches.get(name, 0) for name in dis.opname[:256]] if PY313 else list(_caches)
"""Opcode of the running version -> number of CACHE units after it."""

FLAG_BITS: dict[int, int] = {dis.opmap["LOAD_GLOBAL"]: 1}
"""Opcode -> number of low bits of its argument that are flags."""
if PY312:
    FLAG_BITS[dis.opmap["LOAD_ATTR"]] = 1
    FLAG_BITS[dis.opmap["LOAD_SUPER_ATTR"]] = 2
if PY315:
    FLAG_BITS[dis.opmap["IMPORT_NAME"]] = 2

NOTHING, NUMBER, CONST, NAME, LOCAL, FREE, COMPARE, JUMP, FREE_COUNT = range(9)
"""Kinds of operand. FREE: a cell of the frame or of its closure. FREE_COUNT: the number of free variables."""

KIND: list[int] = [NUMBER if op in HAS_ARG else NOTHING for op in range(len(OPNAMES))]
"""Opcode -> the kind of its operand."""
for _kind, _opcodes in (
    (CONST, dis.hasconst),
    (NAME, dis.hasname),
    (LOCAL, dis.haslocal),
    (FREE, dis.hasfree),
    (COMPARE, dis.hascompare),
    (JUMP, [*dis.hasjrel, *dis.hasjabs]),
    (FREE_COUNT, [dis.opmap["COPY_FREE_VARS"]]),
):
    for _op in _opcodes:
        if _op < 256:  # dis also has the compiler's pseudo-instructions
            KIND[_op] = _kind
KIND[OPMAP["KW_NAMES"]] = CONST
KIND[OPMAP["LOAD_CLOSURE"]] = FREE
KIND[OPMAP["LOAD_DEREF"]] = FREE  # 3.14's dis has it among those on local variables
if PY314:
    KIND[OPMAP["END_ASYNC_FOR"]] = NUMBER  # the argument tells monitoring where the loop is: it doesn't jump there

COMPARE_SHIFT = 5 if PY313 else 4 if PY312 else 0
COMPARE_TO_BOOL = 16 if PY313 else 0
"""The bit of COMPARE_OP's argument by which its result is converted to a bool."""
COMPARE_MASKS: dict[str, int] = (
    {"<": 2, "<=": 10, "==": 8, "!=": 7, ">": 4, ">=": 12} if PY312 else dict.fromkeys(dis.cmp_op, 0)
)
"""The low bits of COMPARE_OP's argument: outcomes for which it is true (1 unordered, 2 less, 4 greater, 8 equal). The
specialized opcodes read only these bits."""

# -- control flow ----------------------------------------------------------------------------------------------


TERMINATORS = opcodes_of("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT")
JUMPS_ALWAYS = opcodes_of("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
ENDS_BLOCK = TERMINATORS | JUMPS_ALWAYS
JUMPS_BACK = frozenset(op for name, op in dis.opmap.items() if op < 256 and "BACKWARD" in name)

DIRECTIONS: dict[int, tuple[int | None, int | None]] = {}
"""Jump -> its (forward, backward) opcodes; None for a direction without one."""
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
"""If the version has it, the target of FOR_ITER: the evaluator continues after it without executing it."""

POP_JUMP = "POP_JUMP_IF_" if PY312 else "POP_JUMP_FORWARD_IF_"
"""The prefix of conditional jumps' names."""

HAS_PRECALL = "PRECALL" in dis.opmap

ITERATOR_SIZE = 2 if PY315 else 1
"""How many values of the stack an iterator takes up while a loop or ``yield from`` advances it. From 3.15 on there is
one above it: a NULL or, where CPython iterates over a list or tuple without an iterator, an index that only GET_ITER
can create. Ours is always NULL."""

EFFECTS: dict[int, Callable[[int], int]] = {
    # dis returns 0, but the value sent first is on the stack when a generator starts.
    dis.opmap["RETURN_GENERATOR"]: lambda arg: 1,
}
"""Opcode -> its stack effect by its argument, where ``dis.stack_effect`` is wrong for us."""
if HAS_PRECALL:  # dis has PRECALL pop the arguments
    EFFECTS[dis.opmap["PRECALL"]] = lambda arg: 0
    EFFECTS[dis.opmap["CALL"]] = lambda arg: -arg - 1
if PY313:
    EFFECTS[OPMAP["KW_NAMES"]] = lambda arg: 0
    EFFECTS[OPMAP["LOAD_CLOSURE"]] = lambda arg: 1
    EFFECTS[OPMAP["MAKE_FUNCTION"]] = lambda arg: -arg.bit_count()
    EFFECTS[OPMAP["END_FOR"]] = lambda arg: -1 - ITERATOR_SIZE
if PY314:
    EFFECTS[OPMAP["CALL_FUNCTION_EX"]] = lambda arg: -2 - (arg & 1)
    EFFECTS[OPMAP["BINARY_SUBSCR"]] = lambda arg: -1
    EFFECTS[OPMAP["BEFORE_WITH"]] = EFFECTS[OPMAP["BEFORE_ASYNC_WITH"]] = lambda arg: 2

CALLABLE_FIRST = PY313
"""Whether the NULL beside a callable is pushed after it. (A method's self or NULL too, after the function.)"""

EXIT_SIZE = 2 if PY314 else 1
"""How many values of the stack a ``with`` block keeps: its ``__exit__``, and from 3.14 on a NULL (or self) above it."""

COMMON_CONSTANTS: list[object] = list(getattr(_opcode, "_common_constants", ()))
"""The objects that LOAD_COMMON_CONSTANT loads, by its argument."""

LOADS_CELLS = PY313
"""Whether LOAD_FAST may load a cell itself, from a slot that holds a plain variable at other times."""

# -- operators -------------------------------------------------------------------------------------------------

_SYMBOLS: list[str] = [symbol for _, symbol in _opcode._nb_ops]  # type: ignore[attr-defined]
BINARY_OPS: list[str] = [symbol for symbol in _SYMBOLS if symbol != "[]"]
"""BINARY_OP's argument -> its symbol in source code, such as ``+`` or ``+=``."""
SUBSCRIPT = _SYMBOLS.index("[]") if PY314 else -1
"""The argument, above those, of a BINARY_OP that is a subscript."""

EXCEPT_STAR = ("CHECK_EG_MATCH", "PREP_RERAISE_STAR")
"""Opcodes that only ``except*`` has."""
