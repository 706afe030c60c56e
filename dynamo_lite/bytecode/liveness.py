"""Live variable analysis of bytecode, exception handlers included."""

from __future__ import annotations

from types import CodeType

from .decode import PerCode, decode
from .instructions import KIND, LOCAL, Instruction
from .stack_depth import successors

_WRITES = frozenset({"STORE_FAST"})
"""Every other instruction on a local variable uses its value; DELETE_FAST requires that it is bound."""


class _Flow:
    """The data flow problem as bit sets with a bit for each name.

    For each instruction: what it reads, the mask of what it doesn't write, its successors, its handler."""

    def __init__(self, instructions: tuple[Instruction, ...]) -> None:
        self.bits: dict[str, int] = {}
        self.reads: list[int] = []
        self.kept: list[int] = []
        self.targets: list[tuple[int, ...]] = []
        self.raises: list[int | None] = []
        following: Instruction | None
        for each, following in zip(instructions, [*instructions[1:], None], strict=True):
            bit = 0
            if KIND[each.opcode] == LOCAL:
                bit = self.bits.setdefault(each.argval, 1 << len(self.bits))
            writes = each.opname in _WRITES
            self.reads.append(0 if writes else bit)
            self.kept.append(~bit if writes else -1)
            self.targets.append(tuple(after.index for after in successors(each, following)))
            self.raises.append(None if each.handler is None else each.handler.target.index)

    def solve(self, always: int) -> list[int]:
        """The least fixpoint. What is live in a handler is live before the instruction, as it may raise before it
        writes."""
        live = [always] * len(self.reads)
        changed = True
        while changed:
            changed = False
            for at in range(len(live) - 1, -1, -1):
                now = 0
                for after in self.targets[at]:
                    now |= live[after]
                now = now & self.kept[at] | self.reads[at] | always
                handler = self.raises[at]
                if handler is not None:
                    now |= live[handler]
                if now != live[at]:
                    live[at] = now
                    changed = True
        return live


def _analyse(code: CodeType) -> tuple[frozenset[str], ...]:
    flow = _Flow(decode(code))
    always = 0
    for name in (*code.co_cellvars, *code.co_freevars):
        always |= flow.bits.setdefault(name, 1 << len(flow.bits))
    solved = flow.solve(always)
    sets = {mask: frozenset(name for name, bit in flow.bits.items() if mask & bit) for mask in set(solved)}
    return tuple(sets[mask] for mask in solved)


live_locals = PerCode(_analyse)
"""For each instruction of a code object, the variables that are live before it. Cells and free variables always are."""
