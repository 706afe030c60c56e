"""Parses and builds exception tables, ``co_exceptiontable`` (Objects/exception_handling_notes.txt in CPython)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .instructions import BytecodeError

Row = tuple[int, int, int, int, bool]
"""Start, end and target in code units; depth and lasti as of `Handler`."""


def parse(table: bytes) -> list[Row]:
    """The rows of a table.

    Raises:
        BytecodeError: the table ends in the middle of a row.
    """
    data = iter(table)
    rows = []
    try:
        for first in data:
            start = _rest(first, data)
            length, target, packed = _varint(data), _varint(data), _varint(data)
            rows.append((start, start + length, target, packed >> 1, bool(packed & 1)))
    except StopIteration:
        raise BytecodeError("the exception table ends in the middle of a row") from None
    return rows


def _varint(data: Iterator[int]) -> int:
    return _rest(next(data), data)


def _rest(byte: int, data: Iterator[int]) -> int:
    value = byte & 63
    while byte & 64:
        byte = next(data)
        value = value << 6 | byte & 63
    return value


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
