"""What tests of bytecode look at: instructions as text that is the same in every run, and checks of code objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import Any

from dynamo_lite.bytecode import BytecodeError, Handler, Instruction, copy_with_map, decode, exception_table, verify
from dynamo_lite.bytecode.instructions import BINARY_OPS, COMPARE, FLAG_BITS, FREE, HAS_ARG, KIND, LOCAL, NAME
from dynamo_lite.bytecode.stack_depth import stack_size


def copy(instructions: Iterable[Instruction]) -> list[Instruction]:
    """Returns a copy that may be mutated."""
    return copy_with_map(instructions)[0]


def disassemble(code: CodeType | Sequence[Instruction]) -> str:
    """One line for each instruction (index, opcode, resolved argument), then one for each range of a handler.

    ``>>`` marks targets of jumps and handlers. There are no addresses, offsets or line numbers, so that the text
    doesn't depend on where the program is. Objects other than literals are shown by type only."""
    instructions = decode(code) if isinstance(code, CodeType) else code
    order = {each: at for at, each in enumerate(instructions)}
    targets = {each.target for each in instructions} | {each.handler.target for each in instructions if each.handler}
    lines = []
    for at, each in enumerate(instructions):
        mark = ">>" if each in targets else "  "
        lines.append(f"{mark} {at:4} {each.opname:<28} {_operand(each, order)}".rstrip())
    lines.extend(_ranges(instructions, order))
    return "\n".join(lines) + "\n"


def _operand(each: Instruction, order: dict[Instruction, int]) -> str:
    if each.target is not None:
        return f"to {order.get(each.target, 'nowhere')}"
    if each.opcode not in HAS_ARG:
        return ""
    if each.opname == "BINARY_OP":
        return BINARY_OPS[each.arg]
    value = each.argval if KIND[each.opcode] in (NAME, LOCAL, FREE, COMPARE) else show(each.argval)
    bits = FLAG_BITS.get(each.opcode, 0)
    if bits and each.flag:
        value += " + NULL" if each.opname == "LOAD_GLOBAL" else " + self or NULL"
    return value + (" (two arguments)" if bits == 2 and each.flag2 else "")


def _ranges(instructions: Sequence[Instruction], order: dict[Instruction, int]) -> list[str]:
    lines: list[str] = []
    previous: Handler | None = None
    start = 0
    for at, handler in enumerate([*(each.handler for each in instructions), None]):
        if handler == previous:
            continue
        if previous is not None:
            lasti = " lasti" if previous.lasti else ""
            to = order.get(previous.target, "nowhere")
            lines.append(f"handler {start}..{at - 1} to {to} depth {previous.depth}{lasti}")
        start, previous = at, handler
    return lines


def show(value: Any) -> str:
    """A constant or name as text that is the same in every run: no addresses, set order or user's ``__repr__``."""
    kind = type(value)
    if kind in (int, float, complex, str, bytes, bool, type(None), type(Ellipsis)):
        return repr(value)
    if kind is tuple:
        return f"({', '.join(map(show, value))}{',' if len(value) == 1 else ''})"
    if kind is frozenset:
        return f"frozenset({{{', '.join(sorted(map(show, value)))}}})"
    if kind is CodeType:
        return f"<code {value.co_qualname}>"
    return f"<{kind.__name__}>"


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
    for row in exception_table.parse(code):
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
