"""Data flow of local variables in bytecode, exception handlers included: which are live, which are surely bound."""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

from .decode import PerCode, decode, slot_names
from .instructions import KIND, LOCAL
from .stack_depth import successors


def _analyse(code: CodeType) -> tuple[frozenset[str], ...]:
    """The least fixpoint of the data flow, as bit sets with a bit for each name."""
    instructions = decode(code)
    bits = {name: 1 << at for at, name in enumerate(dict.fromkeys(slot_names(code)))}
    always = sum(bits[name] for name in {*code.co_cellvars, *code.co_freevars})
    flow = []
    """Of each instruction: what it reads, the mask of what it doesn't write, its successors, its handler."""
    for each, following in zip(instructions, [*instructions[1:], None], strict=True):
        bit = bits[each.argval] if KIND[each.opcode] == LOCAL else 0
        reads, kept = (0, ~bit) if each.opname == "STORE_FAST" else (bit, -1)  # DELETE_FAST requires that it is bound
        targets = [after.index for after in successors(each, following)]
        flow.append((reads, kept, targets, None if each.handler is None else each.handler.target.index))
    live = [always] * len(flow)
    changed = True
    while changed:
        changed = False
        for at in range(len(live) - 1, -1, -1):
            reads, kept, targets, handler = flow[at]
            now = 0
            for after in targets:
                now |= live[after]
            now = now & kept | reads | always
            if handler is not None:  # it may raise before it writes
                now |= live[handler]
            if now != live[at]:
                live[at] = now
                changed = True
    sets = {mask: frozenset(name for name, bit in bits.items() if mask & bit) for mask in set(live)}
    return tuple(sets[mask] for mask in live)


live_locals = PerCode(_analyse)
"""For each instruction of a code object, the variables that are live before it. Cells and free variables always are."""


def _analyse_bound(code: CodeType) -> tuple[frozenset[str], ...]:
    """The greatest fixpoint of the forward data flow, as bit sets with a bit for each name."""
    instructions = decode(code)
    bits = {name: 1 << at for at, name in enumerate(dict.fromkeys(slot_names(code)))}
    count = code.co_argcount + code.co_kwonlyargcount + (code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)).bit_count()
    bound = [-1] * len(instructions)
    bound[0] = sum(bits[name] for name in code.co_varnames[:count])
    loops = {each.index for each in instructions if each.opname == "FOR_ITER"}
    looped = [-1] * len(instructions)
    """Of each FOR_ITER: what is bound where the loop's body ends."""
    changed = True
    while changed:
        changed = False
        for each, following in zip(instructions, [*instructions[1:], None], strict=True):
            before = after = bound[each.index]
            if each.opname == "STORE_FAST":
                after |= bits[each.argval]
            elif each.opname in ("DELETE_FAST", "LOAD_FAST_AND_CLEAR"):
                after &= ~bits[each.argval]
            reached = [(bound, target.index, after) for target in successors(each, following)]
            if each.index in loops:
                reached[-1] = (bound, reached[-1][1], looped[each.index])
            if each.handler is not None:
                reached.append((bound, each.handler.target.index, before & after))
            reached += [(looped, at, state) for _, at, state in reached if at <= each.index and at in loops]
            for states, at, state in reached:
                if states[at] & state != states[at]:
                    states[at] &= state
                    changed = True
    return tuple(frozenset(name for name, bit in bits.items() if state & bit) for state in bound)


bound_locals = PerCode(_analyse_bound)
"""For each instruction of a code object, the variables that are bound before it on every path, where the body of a
``for`` runs at least once. Variables in cells are left out."""
