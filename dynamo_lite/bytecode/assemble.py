"""Instructions to code objects: names and constants to indices, jumps, caches and tables laid out to a fixpoint."""

from __future__ import annotations

import dis
import struct
import types
from collections.abc import Sequence
from types import CodeType
from typing import Any

from . import exception_table, linetable
from .instructions import (
    CACHES,
    COPY_FREE_VARS,
    FLAG_BITS,
    HAS_COMPARE,
    HAS_CONST,
    HAS_FREE,
    HAS_JUMP,
    HAS_LOCAL,
    HAS_NAME,
    HAVE_ARGUMENT,
    KW_NAMES,
    PY312,
    BytecodeError,
    Instruction,
)
from .stack_depth import stack_depths

_PRIMITIVE = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))


def _const_key(value: Any) -> Any:
    """Equal for constants that may share a slot: same type, same bits."""
    kind = type(value)
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if kind in _PRIMITIVE:
        return kind, value
    if kind is tuple:
        return kind, tuple(map(_const_key, value))
    return kind, id(value)


class _Pool:
    """Values in the order of first use."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._index: dict[Any, int] = {}

    def add(self, value: Any, key: Any) -> int:
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.values)
            self.values.append(value)
        return found


class _Names:
    """Slots of local variables: arguments, other locals, cells that are no arguments, free variables."""

    def __init__(self, argnames: Sequence[str], cellvars: Sequence[str], freevars: Sequence[str]) -> None:
        self.locals = _Pool()
        for name in argnames:
            self.locals.add(name, name)
        self.cellvars = cellvars
        self.freevars = freevars

    def slots(self) -> dict[str, int]:
        found = {name: at for at, name in enumerate(self.locals.values)}
        for name in self.cellvars:
            found.setdefault(name, len(found))
        base = len(found)
        found.update({name: base + at for at, name in enumerate(self.freevars)})
        return found


def assemble(
    instructions: Sequence[Instruction],
    *,
    like: CodeType,
    argnames: Sequence[str] | None = None,
    posonlyargcount: int | None = None,
    kwonlyargcount: int | None = None,
    flags: int | None = None,
    cellvars: Sequence[str] | None = None,
    freevars: Sequence[str] | None = None,
    name: str | None = None,
    qualname: str | None = None,
    firstlineno: int | None = None,
) -> CodeType:
    """A code object of these instructions; what isn't given is as in ``like``.

    ``argnames`` are all parameters in the order of their slots: keyword-only ones, ``*args`` and ``**kwargs`` included.
    """
    flags = like.co_flags if flags is None else flags
    kwonly = like.co_kwonlyargcount if kwonlyargcount is None else kwonlyargcount
    starred = bool(flags & 0x04) + bool(flags & 0x08)
    if argnames is None:
        argnames = like.co_varnames[: like.co_argcount + like.co_kwonlyargcount + starred]
    cellvars = like.co_cellvars if cellvars is None else tuple(cellvars)
    freevars = like.co_freevars if freevars is None else tuple(freevars)
    depths = stack_depths(instructions)
    resolver = _Resolver(instructions, _Names(argnames, cellvars, freevars))
    layout = _Layout(instructions, resolver.args)
    first = like.co_firstlineno if firstlineno is None else firstlineno
    return types.CodeType(
        len(argnames) - kwonly - starred,
        like.co_posonlyargcount if posonlyargcount is None else posonlyargcount,
        kwonly,
        len(resolver.names.locals.values),
        _stack_size(instructions, depths),
        flags,
        layout.code(),
        tuple(resolver.consts.values),
        tuple(resolver.globals.values),
        tuple(resolver.names.locals.values),
        like.co_filename,
        like.co_name if name is None else name,
        like.co_qualname if qualname is None else qualname,
        first,
        linetable.build(layout.locations(), first),
        exception_table.build(layout.handlers()),
        tuple(freevars),
        tuple(cellvars),
    )


def _stack_size(instructions: Sequence[Instruction], depths: dict[Instruction, int]) -> int:
    deepest = max(depths.values(), default=0)
    for each in instructions:
        if each.handler is not None:
            deepest = max(deepest, each.handler.depth + 2)
    return deepest + 2


class _Resolver:
    """Arguments of instructions, jumps aside."""

    def __init__(self, instructions: Sequence[Instruction], names: _Names) -> None:
        self.consts = _Pool()
        self.globals = _Pool()
        self.names = names
        for each in instructions:
            if each.opcode in HAS_LOCAL and each.argval not in names.freevars:
                if each.argval not in names.cellvars:
                    names.locals.add(each.argval, each.argval)
        self._slots = names.slots()
        self.args = {each: self._resolve(each) for each in instructions}

    def _resolve(self, each: Instruction) -> int:
        op = each.opcode
        if op < HAVE_ARGUMENT:
            return 0
        if op in HAS_CONST or op == KW_NAMES:
            return self.consts.add(each.argval, _const_key(each.argval))
        bits = FLAG_BITS.get(op, 0)
        if bits or op in HAS_NAME:
            index = self.globals.add(each.argval, each.argval)
            return index << bits | each.flag | (each.flag2 << 1)
        if op in HAS_LOCAL or op in HAS_FREE:
            return self._slots[each.argval]
        if op == COPY_FREE_VARS:
            return len(self.names.freevars)
        if op in HAS_COMPARE and each.arg is None:
            index = dis.cmp_op.index(each.argval)
            return index << 4 if PY312 else index
        return each.arg or 0


class _Layout:
    """Offsets in code units. Each instruction is EXTENDED_ARGs, itself, its caches."""

    def __init__(self, instructions: Sequence[Instruction], args: dict[Instruction, int]) -> None:
        self._instructions = instructions
        self._args = args
        self._order = {each: at for at, each in enumerate(instructions)}
        self._opcodes = {each: self._directed(each) for each in instructions}
        self._widths = {each: 1 for each in instructions}
        self._settle()

    def _directed(self, each: Instruction) -> int:
        """The opcode for the direction that the jump has now."""
        if each.target is None:
            return each.opcode
        backward = self._order[each.target] <= self._order[each]
        name = each.opname
        if name in ("JUMP_FORWARD", "JUMP_BACKWARD"):
            name = "JUMP_BACKWARD" if backward else "JUMP_FORWARD"
        elif "POP_JUMP" in name and not PY312:
            test = name[name.index("IF_") :]
            name = f"POP_JUMP_{'BACKWARD' if backward else 'FORWARD'}_{test}"
        elif backward and "BACKWARD" not in name:
            raise BytecodeError(f"{each} can't jump backward")
        return dis.opmap[name]

    def _settle(self) -> None:
        changed = True
        while changed:
            changed = False
            self._place()
            for each in self._instructions:
                if each.opcode in HAS_JUMP:
                    self._args[each] = self._distance(each)
                width = 1 + (self._args[each] > 0xFF) + (self._args[each] > 0xFFFF) + (self._args[each] > 0xFFFFFF)
                if width > self._widths[each]:
                    self._widths[each] = width
                    changed = True

    def _place(self) -> None:
        self.starts: dict[Instruction, int] = {}
        at = 0
        for each in self._instructions:
            self.starts[each] = at
            at += self._size(each)
        self.end = at

    def _size(self, each: Instruction) -> int:
        return self._widths[each] + CACHES[self._opcodes[each]]

    def _distance(self, each: Instruction) -> int:
        assert each.target is not None
        origin = self.starts[each] + self._size(each)
        return abs(self.starts[each.target] - origin)

    def code(self) -> bytes:
        out = bytearray()
        for each in self._instructions:
            arg = self._args[each]
            for shift in range(8 * (self._widths[each] - 1), 0, -8):
                out += bytes((dis.EXTENDED_ARG, arg >> shift & 0xFF))
            out += bytes((self._opcodes[each], arg & 0xFF))
            out += bytes(2 * CACHES[self._opcodes[each]])
        return bytes(out)

    def locations(self) -> list[tuple[int, Any]]:
        return [(self._size(each), each.positions) for each in self._instructions]

    def handlers(self) -> list[exception_table.Row]:
        """Runs of instructions under one row."""
        rows: list[exception_table.Row] = []
        previous = None
        for each in self._instructions:
            row = each.handler
            start, end = self.starts[each], self.starts[each] + self._size(each)
            if row is not None:
                if row is previous and rows and rows[-1][1] == start:
                    rows[-1] = (rows[-1][0], end, *rows[-1][2:])
                else:
                    rows.append((start, end, self.starts[row.target], row.depth, row.lasti))
            previous = row
        return rows
