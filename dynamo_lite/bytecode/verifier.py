"""Verifies instructions and code objects: invalid ones crash the interpreter."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType

from . import exception_table
from .decode import decode
from .instructions import END_FOR, FOR_ITER, FREE, JUMP, KIND, NUMBER, BytecodeError, Instruction
from .stack_depth import stack_depths, stack_size


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
    if dis.opname[each.opcode] != each.opname:
        raise BytecodeError(f"{each} has the opcode of {dis.opname[each.opcode]}")
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


def verify_code(code: CodeType) -> None:
    """Decode and check a code object.

    Raises:
        BytecodeError: as of `decode` and `verify`; or an operand is out of range, ``co_stacksize`` is too small, rows
            of the exception table are out of order, or a cell is used that is never created.
    """
    try:
        instructions = decode(code)
    except IndexError:
        raise BytecodeError(f"{code.co_name}: an operand is out of range") from None
    depths = verify(instructions)
    if stack_size(depths) > code.co_stacksize:
        raise BytecodeError(f"{code.co_name}: needs a stack of {stack_size(depths)}, has {code.co_stacksize}")
    _verify_rows(code)
    _verify_cells(code, instructions)


def _verify_rows(code: CodeType) -> None:
    end, units = 0, len(code.co_code) // 2
    for row in exception_table.parse(code.co_exceptiontable):
        if not end <= row[0] < row[1] <= units:
            raise BytecodeError(f"{code.co_name}: the rows of the exception table are out of order or out of range")
        end = row[1]


def _verify_cells(code: CodeType, instructions: tuple[Instruction, ...]) -> None:
    copied = next((each.arg for each in instructions if each.opname == "COPY_FREE_VARS"), 0)
    if copied != len(code.co_freevars):
        raise BytecodeError(f"{code.co_name}: copies {copied} of {len(code.co_freevars)} free variables")
    made = {each.argval for each in instructions if each.opname == "MAKE_CELL"}
    for each in instructions:
        if KIND[each.opcode] == FREE and not each.flag and each.argval not in made:
            raise BytecodeError(f"{code.co_name}: {each} uses a cell that is never made")
