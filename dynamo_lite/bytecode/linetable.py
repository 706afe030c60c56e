"""Builds location tables, ``co_linetable`` (PEP 626 and 657; Objects/locations.md in CPython)."""

from __future__ import annotations

from collections.abc import Iterable

from .instructions import Positions

_NO_COLUMNS, _LONG, _NONE = 13, 14, 15
_MOST = 8
"""The most code units that one entry covers."""


def build(entries: Iterable[tuple[int, Positions | None]], first_line: int) -> bytes:
    """Encode (length in code units, positions) pairs. Adjacent ones with equal positions are merged."""
    out = bytearray()
    line, length, here = first_line, 0, None
    for size, positions in entries:
        if positions != here and length:
            line = _run(out, length, here, line)
            length = 0
        here = positions
        length += size
    _run(out, length, here, line)
    return bytes(out)


def _run(out: bytearray, length: int, positions: Positions | None, line: int) -> int:
    while length > 0:
        line = _entry(out, min(length, _MOST), positions, line)
        length -= _MOST
    return line


def _entry(out: bytearray, length: int, positions: Positions | None, line: int) -> int:
    """Append one entry. Returns the line that the next entry is relative to."""
    start, end, column, end_column = positions or (None, None, None, None)
    if start is None:
        _head(out, _NONE, length)
        return line
    delta = start - line
    if column is None or end_column is None or end is None or end < start:
        _head(out, _NO_COLUMNS, length)
        _signed(out, delta)
    else:
        _head(out, _LONG, length)
        _signed(out, delta)
        _unsigned(out, end - start)
        _unsigned(out, column + 1)
        _unsigned(out, end_column + 1)
    return start


def _head(out: bytearray, form: int, length: int) -> None:
    out.append(0x80 | form << 3 | length - 1)


def _unsigned(out: bytearray, value: int) -> None:
    while value >= 64:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)


def _signed(out: bytearray, value: int) -> None:
    _unsigned(out, -value << 1 | 1 if value < 0 else value << 1)
