"""Disassembles bytecode to text that is the same in every run, for golden files."""

from __future__ import annotations

from collections.abc import Sequence
from types import CodeType

from .decode import decode
from .instructions import BINARY_OPS, COMPARE, FLAG_BITS, FREE, HAS_ARG, KIND, LOCAL, NAME, Handler, Instruction, show


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
        return BINARY_OPS[each.arg][0]
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
        if handler is previous:
            continue
        if previous is not None:
            lasti = " lasti" if previous.lasti else ""
            to = order.get(previous.target, "nowhere")
            lines.append(f"handler {start}..{at - 1} to {to} depth {previous.depth}{lasti}")
        start, previous = at, handler
    return lines
