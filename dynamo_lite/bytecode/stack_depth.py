"""How deep the stack is before each instruction, and which instructions can be reached."""

from __future__ import annotations

import dis
from collections.abc import Sequence

from .instructions import ENDS_BLOCK, HAVE_ARGUMENT, BytecodeError, Instruction


def successors(instruction: Instruction, following: Instruction | None) -> list[Instruction]:
    """Where execution may go without an exception."""
    found = []
    if instruction.opcode not in ENDS_BLOCK and following is not None:
        found.append(following)
    if instruction.target is not None:
        found.append(instruction.target)
    return found


def effect(instruction: Instruction, jump: bool) -> int:
    """The change of the stack's depth. What follows RETURN_GENERATOR starts with the value that was sent."""
    if instruction.opname == "RETURN_GENERATOR":
        return 1
    arg = (instruction.arg or 0) if instruction.opcode >= HAVE_ARGUMENT else None
    if arg is not None and (instruction.flag or instruction.flag2):
        arg = arg | instruction.flag | instruction.flag2 << 1
    return dis.stack_effect(instruction.opcode, arg, jump=jump)


def stack_depths(instructions: Sequence[Instruction]) -> dict[Instruction, int]:
    """Depth before each reachable instruction.

    Raises:
        BytecodeError: two paths to an instruction disagree, or a path falls off the end.
    """
    following = dict(zip(instructions, [*instructions[1:], None]))
    depths: dict[Instruction, int] = {}
    work: list[tuple[Instruction, int]] = [(instructions[0], 0)]
    while work:
        at, depth = work.pop()
        known = depths.get(at)
        if known is not None:
            if known != depth:
                raise BytecodeError(f"{at} is reached with {known} and with {depth} values on the stack")
            continue
        if depth < 0:
            raise BytecodeError(f"{at} is reached with {depth} values on the stack")
        depths[at] = depth
        if at.handler is not None:
            work.append((at.handler.target, at.handler.depth + 1 + at.handler.lasti))
        after = following[at]
        if at.opcode not in ENDS_BLOCK:
            if after is None:
                raise BytecodeError(f"execution falls off the end after {at}")
            work.append((after, depth + effect(at, jump=False)))
        if at.target is not None:
            work.append((at.target, depth + effect(at, jump=True)))
    return depths


def drop_unreachable(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Without those that no path from the first one reaches, handlers included."""
    following = dict(zip(instructions, [*instructions[1:], None]))
    seen: set[Instruction] = set()
    work = [instructions[0]]
    while work:
        at = work.pop()
        if at in seen:
            continue
        seen.add(at)
        work.extend(successors(at, following[at]))
        if at.handler is not None:
            work.append(at.handler.target)
    return [each for each in instructions if each in seen]


def verify(instructions: Sequence[Instruction]) -> None:
    """Raises BytecodeError unless jumps and handlers stay inside and the stack is consistent."""
    inside = set(instructions)
    for each in instructions:
        if each.target is not None and each.target not in inside:
            raise BytecodeError(f"{each} jumps to an instruction that is not there")
        if each.handler is not None and each.handler.target not in inside:
            raise BytecodeError(f"{each} is covered by a handler that is not there")
    depths = stack_depths(instructions)
    for each, depth in depths.items():
        if each.handler is not None and each.handler.depth > depth:
            raise BytecodeError(f"{each} has {depth} values on the stack, its handler wants {each.handler.depth}")
