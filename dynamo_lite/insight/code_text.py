"""Generated code objects as text: their bytecode, with a note on each constant.

It isn't shown as Python. The decompiler depyf refuses most of such code and misreads some of the rest: for a value on
the stack it writes the local variable that the value was loaded from, even if the code clears that variable before it
uses the value.
"""

from __future__ import annotations

import dis
from types import CodeType

from dynamo_lite import _C
from dynamo_lite.bytecode import roles

from .site import qualified_name
from .value_text import value_text


def _with_texts(code: CodeType) -> CodeType:
    """The code with texts in the place of constants for which `dis` finds none."""
    long = {at for at, value in enumerate(code.co_consts) if type(value) is int and value.bit_length() > _LONG}
    if not long:
        return code
    return code.replace(
        co_consts=tuple(value_text(each) if at in long else each for at, each in enumerate(code.co_consts))
    )


_LONG = 2_000
"""Bits of an integer that Python writes in decimal under any limit that a program may set."""


def as_text(code: CodeType) -> str:
    """One instruction a line, with a note on what it loads if that is a constant."""
    lines = []
    for each in dis.get_instructions(_with_texts(code)):
        if roles.is_noise(each):
            continue
        target = ">>" if each.is_jump_target else "  "
        operand, note = each.argrepr or ("" if each.arg is None else str(each.arg)), ""
        if roles.loads_constant(each):
            operand, note = _constant(each.argval)
        lines.append(f"{target} {each.offset:4} {each.opname:28} {operand:32}{note}".rstrip())
    return "\n".join(lines)


def _constant(value: object) -> tuple[str, str]:
    """A constant's text, and the note on it."""
    if type(value) is _C.GraphCall:
        return "<graph>", f"# calls {qualified_name(value.fn)}"
    if type(value) is _C.Resume:
        return "<rest>", f"# goes on in {value.code.co_qualname}, after a break at line {_line_after(value.code)}"
    if type(value) in (int, float, str, bool, type(None), tuple):
        return value_text(value), ""
    return f"<{type(value).__name__}>", f"# {qualified_name(value)}"


def _line_after(code: CodeType) -> int:
    """The first line of the program that a resume function executes."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return next((line for line in lines if line != code.co_firstlineno), code.co_firstlineno)
