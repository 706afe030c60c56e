"""The exception table's encoding (Objects/exception_handling_notes.txt in CPython)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Row = tuple[int, int, int, int, bool]
"""Start, end and handler in code units; depth; lasti."""


def parse(table: bytes) -> list[Row]:
    """The rows of a code object's ``co_exceptiontable``."""
    data = iter(table)
    rows = []
    while True:
        try:
            start = _varint(data)
        except StopIteration:
            return rows
        length, target, packed = _varint(data), _varint(data), _varint(data)
        rows.append((start, start + length, target, packed >> 1, bool(packed & 1)))


def _varint(data: Iterator[int]) -> int:
    byte = next(data)
    value = byte & 63
    while byte & 64:
        byte = next(data)
        value = value << 6 | byte & 63
    return value


def build(rows: Sequence[Row]) -> bytes:
    """The inverse of `parse`."""
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
