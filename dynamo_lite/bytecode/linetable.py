"""The location table's encoding (PEP 626 and 657; Objects/locations.md in CPython)."""

from __future__ import annotations

from collections.abc import Iterable

from .instructions import Positions


def build(entries: Iterable[tuple[int, Positions | None]], first_line: int) -> bytes:
    """``entries``: (length in code units, positions) in order."""
    out = bytearray()
    line = first_line
    for length, positions in entries:
        while length > 0:
            part = min(length, 8)
            line = _entry(out, part, positions, line)
            length -= part
    return bytes(out)


def _entry(out: bytearray, length: int, positions: Positions | None, line: int) -> int:
    if positions is None or positions[0] is None:
        out.append(0x80 | 15 << 3 | length - 1)
        return line
    start, end, column, end_column = positions
    delta = start - line
    if end is None or column is None or end_column is None or end < start:
        out.append(0x80 | 13 << 3 | length - 1)
        _signed(out, delta)
        return start
    out.append(0x80 | 14 << 3 | length - 1)
    _signed(out, delta)
    _unsigned(out, end - start)
    _unsigned(out, column + 1)
    _unsigned(out, end_column + 1)
    return start


def _unsigned(out: bytearray, value: int) -> None:
    while value >= 64:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)


def _signed(out: bytearray, value: int) -> None:
    _unsigned(out, -value << 1 | 1 if value < 0 else value << 1)
