"""Control flow and stack depths of instructions."""

from __future__ import annotations

import dis
from collections.abc import Iterable, Sequence
from functools import cache

from .dialect import IS_TRANSLATED, extra_depth
from .instructions import (
    EFFECTS,
    ENDS_BLOCK,
    FLAG_BITS,
    FREE_COUNT,
    HAS_ARG,
    KIND,
    NUMBER,
    BytecodeError,
    Instruction,
    opcodes_of,
)

_RAISES_NOTHING = opcodes_of("LOAD_CONST", "RETURN_VALUE")
"""What the handler of a generator expression of 3.15 covers after the loop, with the iterator gone that it keeps."""


def successors(instruction: Instruction, following: Instruction | None) -> list[Instruction]:
    """The successors of an instruction without exceptions. ``following``: the next instruction in the code."""
    after = []
    if instruction.opcode not in ENDS_BLOCK and following is not None:
        after.append(following)
    if instruction.target is not None:
        after.append(instruction.target)
    return after


def targets_and_handler(instructions: Sequence[Instruction], index: int) -> list[Instruction]:
    """The successors of an instruction, and the handler that covers it."""
    each = instructions[index]
    targets = successors(each, instructions[index + 1] if index + 1 < len(instructions) else None)
    return targets if each.handler is None else [*targets, each.handler.target]


def effect(instruction: Instruction, jump: bool) -> int:
    """The stack effect of an instruction, when it jumps or when it doesn't.

    FOR_ITER of 3.12 jumps with two values that END_FOR pops, as in the compiler and in `dis`. The evaluator never
    pushes them and skips END_FOR instead."""
    op = instruction.opcode
    kind = KIND[op]
    if kind in (NUMBER, FREE_COUNT):
        arg = instruction.arg
    else:
        arg = instruction.flag | instruction.flag2 << 1 if op in FLAG_BITS else 0
    return _effect(op, arg, jump)


@cache
def _effect(op: int, arg: int, jump: bool) -> int:
    if op in EFFECTS:
        return EFFECTS[op](arg)
    return dis.stack_effect(op, arg if op in HAS_ARG else None, jump=jump)


def stack_depths(instructions: Sequence[Instruction]) -> dict[Instruction, int]:
    """The stack depth before each reachable instruction.

    Raises:
        BytecodeError: two paths to an instruction have different depths, a path pops from an empty stack or falls off
            the end, or a handler's depth is greater than that of an instruction which may raise to it.
    """
    if not instructions:
        raise BytecodeError("no instructions")
    order = {each: at for at, each in enumerate(instructions)}
    depths: dict[Instruction, int] = {}
    work: list[tuple[Instruction, int]] = [(instructions[0], 0)]
    while work:
        each, depth = work.pop()
        known = depths.get(each)
        if known is not None:
            if known != depth:
                raise BytecodeError(
                    f"{_name(order, each)} is reached with {known} and with {depth} values on the stack"
                )
            continue
        if each not in order:
            raise BytecodeError(f"a jump or handler leads to {each}, which is not among the instructions")
        depths[each] = depth
        handler = each.handler
        if handler is not None and (handler.depth <= depth or each.opcode not in _RAISES_NOTHING):
            if handler.depth > depth:
                raise BytecodeError(
                    f"{_name(order, each)} has {depth} values on the stack, its handler wants {handler.depth}"
                )
            work.append((handler.target, handler.depth + handler.lasti + 1))
        if each.target is not None:
            work.append((each.target, _after(order, each, depth, jump=True)))
        if each.opcode not in ENDS_BLOCK:
            at = order[each] + 1
            if at == len(instructions):
                raise BytecodeError(f"execution falls off the end after {_name(order, each)}")
            work.append((instructions[at], _after(order, each, depth, jump=False)))
    return depths


def _after(order: dict[Instruction, int], each: Instruction, depth: int, jump: bool) -> int:
    after = depth + effect(each, jump)
    if after < 0:
        raise BytecodeError(f"{_name(order, each)} takes more than the {depth} values on the stack")
    return after


def _name(order: dict[Instruction, int], each: Instruction) -> str:
    return f"{each} at {order[each]}"


def stack_size(depths: dict[Instruction, int]) -> int:
    """``co_stacksize``. Depths in handlers include the exception and the offset."""
    if not IS_TRANSLATED:
        return max(depths.values())
    return max(depth + extra_depth(each) for each, depth in depths.items())


def drop_unreachable(instructions: Sequence[Instruction]) -> list[Instruction]:
    """The instructions that are reachable from the first one, through handlers too."""
    return reachable_from(instructions, instructions[:1])


def reachable_after(instructions: Sequence[Instruction], index: int) -> list[Instruction]:
    """The instructions that may run after the one at an index."""
    return reachable_from(instructions, targets_and_handler(instructions, index))


def reachable_from(instructions: Sequence[Instruction], entries: Iterable[Instruction]) -> list[Instruction]:
    """The instructions that are reachable from some of them, which are included, in their order."""
    order = {each: at for at, each in enumerate(instructions)}
    seen: set[Instruction] = set()
    work = [*entries]
    while work:
        each = work.pop()
        if each not in seen:
            seen.add(each)
            work += targets_and_handler(instructions, order[each])
    return [each for each in instructions if each in seen]
