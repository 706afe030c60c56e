"""Decodes code objects to instructions, once for each code object."""

from __future__ import annotations

import dis
import functools
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import CodeType
from typing import Generic, TypeVar

from . import dialect, exception_table
from .instructions import (
    CACHES,
    COMPARE,
    COMPARE_SHIFT,
    CONST,
    FLAG_BITS,
    FREE,
    FUSED,
    JUMP,
    JUMPS_BACK,
    KIND,
    LOCAL,
    NAME,
    NOTHING,
    OPNAMES,
    BytecodeError,
    Handler,
    Instruction,
)

T = TypeVar("T")


class PerCode(Generic[T]):
    """A function of code objects that keeps its result for each live code object.

    The key is the identity: equal code objects may differ in their file, and many that are nearly equal have one hash.
    Two threads may compute the same result; both get that which was there first."""

    def __init__(self, compute: Callable[[CodeType], T]) -> None:
        self._compute = compute
        self._kept: dict[int, tuple[weakref.ref[CodeType], T]] = {}

    def __call__(self, code: CodeType) -> T:
        kept = self._kept
        entry = kept.get(id(code))
        if entry is None:
            key = id(code)
            # The callback runs before the code object's memory, and so its id, can be reused. It runs wherever the last
            # reference goes, under a profile function too, so it is no function of Python.
            result = self._compute(code)
            entry = kept.setdefault(key, (weakref.ref(code, functools.partial(kept.pop, key)), result))
        return entry[1]

    def get(self, code: CodeType) -> T | None:
        """The result, if it has been computed."""
        entry = self._kept.get(id(code))
        return None if entry is None else entry[1]

    def forget(self, code: CodeType) -> None:
        """Drop the result for a code object: it is computed again when it is needed."""
        self._kept.pop(id(code), None)

    def clear(self) -> None:
        """Drop all results."""
        self._kept.clear()


def slot_names(code: CodeType) -> tuple[str, ...]:
    """The name of each slot of the frame: locals, then cells that aren't locals, then free variables."""
    local = code.co_varnames
    return (*local, *(name for name in code.co_cellvars if name not in local), *code.co_freevars)


def _decode(code: CodeType) -> tuple[Instruction, ...]:
    raw, opnames = code.co_code, dis.opname
    positions = [*code.co_positions()]
    missing = len(raw) // 2 - len(positions)  # code.replace() may have given it another's table
    positions += [(None, None, None, None)] * missing
    found: list[Instruction] = []
    starts: dict[int, Instruction] = {}
    """Code unit -> the instruction (with its EXTENDED_ARGs) that begins there."""
    operands = _Operands(code)
    unit = start = extended = 0
    while unit < len(raw) // 2:
        op, arg = raw[2 * unit], raw[2 * unit + 1] | extended
        unit += 1
        if op == dis.EXTENDED_ARG:
            extended = arg << 8
            continue
        made = Instruction(op, opnames[op], 0, None, None, False, len(found), 2 * unit - 2, positions[unit - 1])
        found.append(made)
        starts[start] = made
        unit += CACHES[op]
        start, extended = unit, 0
        if op in FUSED:
            operands.split(made, arg, found)
        elif KIND[op] != NOTHING:
            made.arg = arg
            operands.resolve(made, arg, unit)
    for jump, target in operands.jumps:
        jump.target = _at(starts, target)
    _cover(code, found, starts)
    return tuple(dialect.to_canonical(found, code) if dialect.IS_TRANSLATED else found)


decode = PerCode(_decode)
"""The instructions of a code object. All callers share them: to change them, copy them with `copy_with_map`.

Raises:
    BytecodeError: the target of a jump or handler is outside of the code, or no instruction begins there.
"""


class _Operands:
    """Resolves the arguments of one code object's instructions."""

    def __init__(self, code: CodeType) -> None:
        self.consts, self.names, self.slots = code.co_consts, code.co_names, slot_names(code)
        self.first_free = len(self.slots) - len(code.co_freevars)
        self.jumps: list[tuple[Instruction, int]] = []
        """(jump, code unit of its target)."""

    def split(self, made: Instruction, arg: int, found: list[Instruction]) -> None:
        """Make a fused instruction the first of its two, and append the second one."""
        second = made.copy()
        second.index = len(found)
        found.append(second)
        for each, op, value in zip((made, second), FUSED[made.opcode], (arg >> 4, arg & 15), strict=True):
            each.opcode, each.opname, each.arg = op, OPNAMES[op], value
            self.resolve(each, value, 0)

    def resolve(self, made: Instruction, arg: int, after: int) -> None:
        """Set what an argument stands for. ``after``: the code unit of the next instruction."""
        op = made.opcode
        kind = KIND[op]
        if kind == LOCAL:
            made.argval = self.slots[arg]
        elif kind == CONST:
            made.argval = self.consts[arg]
        elif kind == NAME:
            bits = FLAG_BITS.get(op, 0)
            made.argval = self.names[arg >> bits]
            if bits:
                made.flag = bool(arg & 1)
                made.flag2 = bits == 2 and bool(arg & 2)
        elif kind == JUMP:
            self.jumps.append((made, after - arg if op in JUMPS_BACK else after + arg))
        elif kind == FREE:
            made.argval = self.slots[arg]
            made.flag = arg >= self.first_free
        elif kind == COMPARE:
            made.argval = dis.cmp_op[arg >> COMPARE_SHIFT]
        else:
            made.argval = arg


def _at(starts: dict[int, Instruction], unit: int) -> Instruction:
    if unit not in starts:
        raise BytecodeError(f"no instruction begins at {2 * unit}")
    return starts[unit]


def _cover(code: CodeType, found: list[Instruction], starts: dict[int, Instruction]) -> None:
    """Set the handlers. As in the interpreter, the first row that covers an instruction counts."""
    for start, end, target, depth, lasti in exception_table.parse(code):
        row = Handler(_at(starts, target), depth, lasti)
        for made in found[_at(starts, start).index :]:
            if made.offset >= 2 * end:
                break
            if made.handler is None:
                made.handler = row


def copy_with_map(instructions: Iterable[Instruction]) -> tuple[list[Instruction], dict[Instruction, Instruction]]:
    """A copy that may be changed, and a map of old to new instructions. Targets must be among the instructions."""
    mapping = {old: old.copy() for old in instructions}
    rows: dict[int, Handler] = {}
    """By the identity of the old row, which a range of instructions shares."""
    for old, new in mapping.items():
        if old.target is not None:
            new.target = mapping[old.target]
        if old.handler is not None:
            row = rows.get(id(old.handler))
            if row is None:
                row = rows[id(old.handler)] = replace(old.handler, target=mapping[old.handler.target])
            new.handler = row
    return list(mapping.values()), mapping
