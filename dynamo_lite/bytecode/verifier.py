"""Verifies instructions and code objects: invalid ones crash the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

from .instructions import END_FOR, FOR_ITER, JUMP, KIND, NUMBER, OPNAMES, BytecodeError, Instruction
from .stack_depth import stack_depths


def verify(instructions: Sequence[Instruction]) -> dict[Instruction, int]:
    """Check instructions; return their stack depths.

    Raises:
        BytecodeError: an instruction occurs twice, lacks its operand or has one that its opcode doesn't take, or has a
            target that is not among the instructions; or as of `stack_depths`.
    """
    inside = set(instructions)
    if len(inside) != len(instructions):
        twice = next(each for at, each in enumerate(instructions) if each in instructions[:at])
        raise BytecodeError(f"{twice} comes twice")
    for each in instructions:
        _verify_operand(each, inside)
    return stack_depths(instructions)


def _verify_operand(each: Instruction, inside: set[Instruction]) -> None:
    kind = KIND[each.opcode]
    if OPNAMES[each.opcode] != each.opname:
        raise BytecodeError(f"{each} has the opcode of {OPNAMES[each.opcode]}")
    if (kind == JUMP) != (each.target is not None):
        raise BytecodeError(f"{each} jumps nowhere" if kind == JUMP else f"{each} can't jump")
    if each.target is not None and each.target not in inside:
        raise BytecodeError(f"{each} jumps to an instruction that is not there")
    if each.handler is not None and each.handler.target not in inside:
        raise BytecodeError(f"{each} is covered by a handler that is not there")
    if each.opcode == FOR_ITER and END_FOR is not None and each.target is not None and each.target.opcode != END_FOR:
        raise BytecodeError(f"{each}: FOR_ITER must jump to an END_FOR, the evaluator steps over what is there")
    if kind == NUMBER and not isinstance(each.arg, int):
        raise BytecodeError(f"{each} lacks its argument")
