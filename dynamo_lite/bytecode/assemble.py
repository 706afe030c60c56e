"""Assembles instructions to code objects: resolves names and constants, and lays jumps and caches out to a fixpoint."""

from __future__ import annotations

import dis
import struct
from collections.abc import Hashable, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType
from typing import Any

from . import dialect, exception_table, linetable
from .instructions import (
    CACHES,
    COMPARE,
    COMPARE_MASKS,
    COMPARE_SHIFT,
    CONST,
    DIRECTIONS,
    FLAG_BITS,
    FREE,
    FREE_COUNT,
    JUMP,
    KIND,
    LOCAL,
    NAME,
    NOTHING,
    BytecodeError,
    Handler,
    Instruction,
    Positions,
)
from .stack_depth import stack_size
from .verifier import verify

_STARRED = CO_VARARGS | CO_VARKEYWORDS


def assemble(
    instructions: Sequence[Instruction],
    *,
    like: CodeType,
    argnames: Sequence[str] | None = None,
    cellvars: Sequence[str] | None = None,
    freevars: Sequence[str] | None = None,
) -> CodeType:
    """Assemble a code object from instructions. What isn't given is as in ``like``.

    ``argnames`` are the parameters, each of which may be given by position. Slots of parameters come first, then other
    local variables, then cells that aren't locals, then ``freevars``.

    Unconditional jumps may go in either direction, others as their opcode does. `decode` of the result has these
    instructions one for one. Constants are any objects. Those of primitive types, and tuples of them, share an index if
    their types and bits are equal. The interpreter interns strings that look like names.

    Raises:
        BytecodeError: as of `verify`; or a name has no slot, or a jump can't go in its direction.
    """
    if argnames is None:
        count, posonly, kwonly, flags = like.co_argcount, like.co_posonlyargcount, like.co_kwonlyargcount, like.co_flags
        argnames = like.co_varnames[: count + kwonly + (flags & _STARRED).bit_count()]
    else:
        count, posonly, kwonly, flags = len(argnames), 0, 0, like.co_flags & ~_STARRED
    cellvars = tuple(like.co_cellvars if cellvars is None else cellvars)
    freevars = tuple(like.co_freevars if freevars is None else freevars)
    depths = verify(instructions)
    names = _Names(like, argnames, cellvars, freevars, instructions)
    consts = _Pool(like.co_consts, CONST, instructions, keep=1)  # the first is the function's docstring
    attributes = _Pool(like.co_names, NAME, instructions)
    layout = _Layout(instructions, [_argument(each, consts, attributes, names) for each in instructions])
    return CodeType(
        count,
        posonly,
        kwonly,
        len(names.local),
        stack_size(depths),
        flags,
        layout.code(),
        tuple(consts.values),
        tuple(attributes.values),
        tuple(names.local),
        like.co_filename,
        like.co_name,
        like.co_qualname,
        like.co_firstlineno,
        linetable.build(layout.locations(), like.co_firstlineno),
        exception_table.build(layout.handlers()),
        freevars,
        cellvars,
    )


# -- operands --------------------------------------------------------------------------------------------------


def _key(value: Any) -> Hashable:
    """Equal for values that may share an index: of the same type and bits or, for other types, the same object."""
    kind = type(value)
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if kind in (int, str, bytes, bool):
        return kind, value
    if kind is tuple:
        return kind, tuple(map(_key, value))
    return kind, id(value)


class _Pool:
    """A table of the values of one kind of operand: used ones of the old table in their order, then new ones in the
    order of first use. The first ``keep`` old ones stay."""

    def __init__(self, old: Sequence[object], kind: int, instructions: Sequence[Instruction], keep: int = 0) -> None:
        used = [each.argval for each in instructions if KIND[each.opcode] == kind]
        if kind == CONST:
            used = [value for value in used if dialect.immediate(value) is None]
        self.values: list[Any] = []
        self._index: dict[Hashable, int] = {}
        keys = set(map(_key, used))
        for value in (*old[:keep], *(value for value in old if _key(value) in keys), *used):
            if self._index.setdefault(_key(value), len(self.values)) == len(self.values):
                self.values.append(value)

    def index(self, value: object) -> int:
        return self._index[_key(value)]


class _Names:
    """Slots of a frame: parameters, other locals, cells that aren't locals, free variables.

    A local variable of an inlined comprehension may have the name of a free variable of the function: they have two
    slots. A local variable that is also a cell has one.
    """

    def __init__(
        self,
        like: CodeType,
        argnames: Sequence[str],
        cellvars: tuple[str, ...],
        freevars: tuple[str, ...],
        instructions: Sequence[Instruction],
    ) -> None:
        for kind, names in (("parameters", argnames), ("cells", cellvars), ("free variables", freevars)):
            if len(set(names)) != len(names):
                raise BytecodeError(f"a name comes twice among the {kind}: {', '.join(names)}")
        used = dict.fromkeys(each.argval for each in instructions if KIND[each.opcode] == LOCAL)
        shared = {*cellvars, *freevars}
        apart = {name for name in like.co_varnames if name in cellvars or name in like.co_freevars}
        kept = [name for name in like.co_varnames if name in used]
        own = [name for name in (*kept, *used) if name not in shared or name in apart]
        self.local = list(dict.fromkeys((*argnames, *own)))
        self._local = {name: at for at, name in enumerate(self.local)}
        cells = dict(self._local)
        for name in cellvars:
            cells.setdefault(name, len(cells))
        self._cell = {name: cells[name] for name in cellvars}
        self._free = {name: len(cells) + at for at, name in enumerate(freevars)}
        self.free_count = len(freevars)

    def slot(self, each: Instruction) -> int:
        """The slot of an instruction's name. If both the frame and its closure have a cell of that name, the flag
        decides."""
        tables = [self._cell, self._free]
        if KIND[each.opcode] == LOCAL:
            tables = [self._local, self._cell, self._free]
        elif each.flag:
            tables = [self._free, self._cell]
        for table in tables:
            if each.argval in table:
                return table[each.argval]
        raise BytecodeError(f"{each}: that name is neither a cell nor a free variable of the code")


def _argument(each: Instruction, consts: _Pool, attributes: _Pool, names: _Names) -> int:
    """The argument of an instruction. `_Layout` computes those of jumps."""
    op = each.opcode
    kind = KIND[op]
    if kind in (NOTHING, JUMP):
        return 0
    if kind == CONST:
        return 0 if dialect.immediate(each.argval) is not None else consts.index(each.argval)
    if kind == NAME:
        bits = FLAG_BITS.get(op, 0)
        flags = each.flag | each.flag2 << 1 if bits else 0
        return attributes.index(each.argval) << bits | flags
    if kind in (LOCAL, FREE):
        return names.slot(each)
    if kind == COMPARE:
        return dis.cmp_op.index(each.argval) << COMPARE_SHIFT | COMPARE_MASKS[each.argval]
    if kind == FREE_COUNT:
        return names.free_count
    return each.arg


# -- layout ----------------------------------------------------------------------------------------------------


class _Layout:
    """The offsets of instructions in code units. Each has its EXTENDED_ARGs, itself, then its caches."""

    def __init__(self, instructions: Sequence[Instruction], args: list[int]) -> None:
        units = dialect.lower(instructions, args)
        self._sources = [each for _, _, each in units]
        self._args = [arg for _, arg, _ in units]
        self._opcodes = [opcode for opcode, _, _ in units]
        self._order: dict[Instruction, int] = {}
        """Where the first part of each instruction is."""
        for at, each in enumerate(self._sources):
            self._order.setdefault(each, at)
        self._jumps: list[tuple[int, int]] = []
        for at, each in enumerate(self._sources):
            if each.target is not None and KIND[self._opcodes[at]] == JUMP:
                self._jumps.append((at, self._order[each.target]))
                self._opcodes[at] = self._directed(each, self._order[each.target] <= at)
        self._widths = [1 if arg < 256 else (arg.bit_length() + 7) // 8 for arg in self._args]
        self._starts: list[int] = []
        self._widen()

    def _directed(self, each: Instruction, backward: bool) -> int:
        """The opcode for the direction of the jump in this layout."""
        opcode = DIRECTIONS[each.opcode][backward]
        if opcode is None:
            raise BytecodeError(f"{each} can't jump that way")
        return opcode

    def _widen(self) -> None:
        """Widen jumps until their arguments fit. Widths only grow, so this terminates."""
        grown = True
        while grown:
            grown = False
            self._place()
            for at, target in self._jumps:
                arg = self._args[at] = abs(self._starts[target] - self._starts[at + 1])
                width = (arg.bit_length() + 7) // 8
                if width > self._widths[at]:
                    self._widths[at] = width
                    grown = True

    def _place(self) -> None:
        """Compute the starts of all instructions. The last item is the end of the code."""
        unit = 0
        self._starts = [0]
        for width, op in zip(self._widths, self._opcodes, strict=True):
            unit += width + CACHES[op]
            self._starts.append(unit)

    def code(self) -> bytes:
        """``co_code``."""
        out = bytearray()
        for op, arg, width in zip(self._opcodes, self._args, self._widths, strict=True):
            for shift in range(8 * (width - 1), 0, -8):
                out += bytes((dis.EXTENDED_ARG, arg >> shift & 0xFF))
            out += bytes((op, arg & 0xFF))
            out += bytes(2 * CACHES[op])
        return bytes(out)

    def locations(self) -> list[tuple[int, Positions | None]]:
        """(length in code units, positions) of each instruction."""
        starts = self._starts
        return [(starts[at + 1] - starts[at], each.positions) for at, each in enumerate(self._sources)]

    def handlers(self) -> list[exception_table.Row]:
        """The rows of the exception table. Consecutive instructions with equal handlers share a row."""
        rows: list[exception_table.Row] = []
        previous: Handler | None = None
        for at, each in enumerate(self._sources):
            handler, end = each.handler, self._starts[at + 1]
            if handler is not None:
                if handler == previous:
                    rows[-1] = (rows[-1][0], end, *rows[-1][2:])
                else:
                    target = self._starts[self._order[handler.target]]
                    rows.append((self._starts[at], end, target, handler.depth, handler.lasti))
            previous = handler
        return rows
