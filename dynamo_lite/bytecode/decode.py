"""Code objects to instructions."""

from __future__ import annotations

import dis
import weakref
from collections.abc import Iterable
from types import CodeType

from . import exception_table
from .instructions import (
    CACHES,
    COMPARE_SHIFT,
    FLAG_BITS,
    HAS_COMPARE,
    HAS_CONST,
    HAS_FREE,
    HAS_JUMP,
    HAS_LOCAL,
    HAS_NAME,
    KW_NAMES,
    Handler,
    Instruction,
)


class _Decoded:
    """Instructions of code objects that are alive. By identity: equal code objects may differ in their file."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[Instruction, ...]] = {}

    def get(self, code: CodeType) -> tuple[Instruction, ...]:
        found = self._by_id.get(id(code))
        if found is None:
            found = self._by_id[id(code)] = tuple(_decode(code))
            weakref.finalize(code, self._by_id.pop, id(code), None).atexit = False
        return found


_DECODED = _Decoded()


def decode(code: CodeType) -> tuple[Instruction, ...]:
    """The instructions of a code object. Shared by all who ask: not to be changed (see `copy`)."""
    return _DECODED.get(code)


def _local_names(code: CodeType) -> tuple[str, ...]:
    """Names by slot: locals, then cells that are no arguments, then free variables."""
    extra = tuple(name for name in code.co_cellvars if name not in code.co_varnames)
    return code.co_varnames + extra + code.co_freevars


def _decode(code: CodeType) -> list[Instruction]:
    raw = code.co_code
    slots = _local_names(code)
    positions = list(code.co_positions())
    found: list[Instruction] = []
    by_offset: dict[int, Instruction] = {}
    jumps: list[tuple[Instruction, int]] = []
    extended, at, begin = 0, 0, 0
    while at < len(raw):
        op, arg = raw[at], raw[at + 1] | extended
        unit = at // 2
        at += 2
        if op == dis.EXTENDED_ARG:
            extended = arg << 8
            continue
        extended = 0
        at += 2 * CACHES[op]
        made = Instruction(op, dis.opname[op], index=len(found), offset=2 * unit, positions=positions[unit])
        if op >= dis.HAVE_ARGUMENT:
            made.arg = arg
            _resolve(made, code, slots)
            if op in HAS_JUMP:
                back = "BACKWARD" in made.opname
                jumps.append((made, at - 2 * arg if back else at + 2 * arg))
        found.append(made)
        for offset in range(begin, 2 * unit + 2, 2):
            by_offset[offset] = made
        begin = at
    for made, offset in jumps:
        made.target = by_offset[offset]
    _handlers(code, found, by_offset)
    return found


def _resolve(made: Instruction, code: CodeType, slots: tuple[str, ...]) -> None:
    op, arg = made.opcode, made.arg
    assert arg is not None
    bits = FLAG_BITS.get(op, 0)
    if bits:
        made.flag = bool(arg & 1)
        made.flag2 = bits == 2 and bool(arg & 2)
        made.argval = code.co_names[arg >> bits]
    elif op in HAS_CONST or op == KW_NAMES:
        made.argval = code.co_consts[arg]
    elif op in HAS_NAME:
        made.argval = code.co_names[arg]
    elif op in HAS_LOCAL or op in HAS_FREE:
        made.argval = slots[arg]
    elif op in HAS_COMPARE:
        made.argval = dis.cmp_op[arg >> COMPARE_SHIFT]


def _handlers(code: CodeType, found: list[Instruction], by_offset: dict[int, Instruction]) -> None:
    for start, end, target, depth, lasti in exception_table.parse(code.co_exceptiontable):
        row = Handler(by_offset[2 * target], depth, lasti)
        for made in found:
            if 2 * start <= made.offset < 2 * end:
                made.handler = row


def copy_with_map(
    instructions: Iterable[Instruction],
) -> tuple[list[Instruction], dict[Instruction, Instruction]]:
    """A copy that may be changed, and which instruction became which."""
    mapping: dict[Instruction, Instruction] = {}
    for each in instructions:
        mapping[each] = Instruction(
            each.opcode, each.opname, each.arg, each.argval, None, each.flag, each.index, each.offset, each.positions
        )
        mapping[each].flag2 = each.flag2
    rows: dict[int, Handler] = {}
    for old, new in mapping.items():
        if old.target is not None:
            new.target = mapping[old.target]
        if old.handler is not None:
            row = rows.get(id(old.handler))
            if row is None:
                row = rows[id(old.handler)] = Handler(
                    mapping[old.handler.target], old.handler.depth, old.handler.lasti
                )
            new.handler = row
    return list(mapping.values()), mapping


def copy(instructions: Iterable[Instruction]) -> list[Instruction]:
    """A copy that may be changed."""
    return copy_with_map(instructions)[0]
