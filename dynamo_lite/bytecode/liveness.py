"""Which local variables may still be read: the classic backward analysis, exceptions included."""

from __future__ import annotations

import weakref
from types import CodeType

from .decode import decode
from .instructions import Instruction
from .stack_depth import successors

_READS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "MAKE_CELL"})
_WRITES = frozenset({"STORE_FAST"})


class _Liveness:
    """Results by code object, alive as long as it is."""

    def __init__(self) -> None:
        self._by_id: dict[int, tuple[frozenset[str], ...]] = {}

    def get(self, code: CodeType) -> tuple[frozenset[str], ...]:
        found = self._by_id.get(id(code))
        if found is None:
            found = self._by_id[id(code)] = _analyse(code)
            weakref.finalize(code, self._by_id.pop, id(code), None).atexit = False
        return found


_LIVENESS = _Liveness()


def live_locals(code: CodeType) -> tuple[frozenset[str], ...]:
    """By index of instruction: the names that may be read from it on before they are written.

    Cells and free variables are always among them."""
    return _LIVENESS.get(code)


def _analyse(code: CodeType) -> tuple[frozenset[str], ...]:
    instructions = decode(code)
    always = frozenset(code.co_cellvars) | frozenset(code.co_freevars)
    live: list[frozenset[str]] = [always] * len(instructions)
    changed = True
    while changed:
        changed = False
        for at in range(len(instructions) - 1, -1, -1):
            new = _before(instructions, live, at)
            if new != live[at]:
                live[at] = new
                changed = True
    return tuple(live)


def _before(instructions: tuple[Instruction, ...], live: list[frozenset[str]], at: int) -> frozenset[str]:
    instruction = instructions[at]
    following = instructions[at + 1] if at + 1 < len(instructions) else None
    after: frozenset[str] = live[at] & frozenset()
    for each in successors(instruction, following):
        after |= live[each.index]
    if instruction.opname in _WRITES:
        after -= {instruction.argval}
    if instruction.handler is not None:
        after |= live[instruction.handler.target.index]
    if instruction.opname in _READS:
        after |= {instruction.argval}
    return after
