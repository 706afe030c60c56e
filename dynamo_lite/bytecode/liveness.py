"""Which local variables may still be read: the classic backward analysis, exceptions included."""

from __future__ import annotations

from types import CodeType

from .decode import PerCode, decode
from .instructions import FREE, KIND, LOCAL, NAME, Instruction
from .stack_depth import successors

_WRITES = frozenset({"STORE_FAST"})
"""Every other instruction on a local variable needs what is in it: to read it, or (DELETE_FAST) to find it bound."""


_COMPUTES = ("BINARY_", "COMPARE_", "UNARY_", "CALL", "STORE_SUBSCR")
"""What the names of instructions begin with that may compute with tensors."""


def live_locals(code: CodeType) -> tuple[frozenset[str], ...]:
    """By index of instruction: the names that may be read from it on before they are written.

    Cells and free variables are always among them."""
    return _live(code)


def names_after(code: CodeType, index: int) -> tuple[set[str], set[str]]:
    """The variables that may be used once the instruction at ``index`` is done, and the other names that are: of
    globals, of attributes and of what is imported. None of them where values are only handed on."""
    instructions = decode(code)
    reached: set[int] = set()
    waiting = [instructions[index]]
    while waiting:
        each = waiting.pop()
        following = instructions[each.index + 1] if each.index + 1 < len(instructions) else None
        goes = successors(each, following)
        if each.handler is not None:
            goes.append(each.handler.target)
        waiting += [after for after in goes if after.index not in reached]
        reached.update(after.index for after in goes)
    used = [instructions[at] for at in reached]
    if not any(each.opname.startswith(_COMPUTES) for each in used):
        return set(), set()
    variables = {each.argval for each in used if KIND[each.opcode] in (LOCAL, FREE)}
    return variables, {each.argval for each in used if KIND[each.opcode] == NAME}


class _Flow:
    """The problem in bits: a bit a name, and by instruction what it reads, what it leaves alive, where it may go."""

    def __init__(self, instructions: tuple[Instruction, ...]) -> None:
        self.bits: dict[str, int] = {}
        self.reads: list[int] = []
        self.keeps: list[int] = []
        self.goes: list[tuple[int, ...]] = []
        self.raises: list[int | None] = []
        following: Instruction | None
        for each, following in zip(instructions, [*instructions[1:], None], strict=True):
            bit = 0
            if KIND[each.opcode] == LOCAL:
                bit = self.bits.setdefault(each.argval, 1 << len(self.bits))
            writes = each.opname in _WRITES
            self.reads.append(0 if writes else bit)
            self.keeps.append(~bit if writes else -1)
            self.goes.append(tuple(after.index for after in successors(each, following)))
            self.raises.append(None if each.handler is None else each.handler.target.index)

    def solve(self, always: int) -> list[int]:
        """The least solution; a handler needs what it needs before the instruction has written anything."""
        live = [always] * len(self.reads)
        changed = True
        while changed:
            changed = False
            for at in range(len(live) - 1, -1, -1):
                now = 0
                for after in self.goes[at]:
                    now |= live[after]
                now = now & self.keeps[at] | self.reads[at] | always
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


_live = PerCode(_analyse)
