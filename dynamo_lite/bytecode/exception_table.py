"""Parses and builds exception tables, ``co_exceptiontable`` (Objects/exception_handling_notes.txt in CPython)."""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType

Row = tuple[int, int, int, int, bool]
"""Start, end and target in code units; depth and lasti as of `Handler`."""


def parse(code: CodeType) -> list[Row]:
    """The rows of a code object's exception table."""
    return [
        (each.start // 2, each.end // 2, each.target // 2, each.depth, each.lasti)
        for each in dis._parse_exception_table(code)  # type: ignore[attr-defined]
    ]


def build(rows: Sequence[Row]) -> bytes:
    """The inverse of `parse`. Rows must be sorted and disjoint: the interpreter searches them by bisection."""
    out = bytearray()
    for start, end, target, depth, lasti in rows:
        first = len(out)
        for value in (start, end - start, target, depth << 1 | lasti):
            _put(out, value)
        out[first] |= 0x80
    return bytes(out)


def _put(out: bytearray, value: int) -> None:
    shift = 0
    while value >> shift + 6:
        shift += 6
    while shift:
        out.append(value >> shift & 63 | 64)
        shift -= 6
    out.append(value & 63)
