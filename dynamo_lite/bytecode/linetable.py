"""Builds location tables, ``co_linetable`` (PEP 626 and 657; Objects/locations.md in CPython)."""

from __future__ import annotations

from collections.abc import Iterable

from .instructions import Positions

_LONG, _NONE = 14, 15
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
    out.append(0x80 | (_NONE if start is None else _LONG) << 3 | length - 1)
    if start is None:
        return line
    _signed(out, start - line)
    _unsigned(out, 0 if end is None else max(end - start, 0))
    for each in (column, end_column):  # 0: it isn't known
        _unsigned(out, 0 if each is None else each + 1)
    return start


def _unsigned(out: bytearray, value: int) -> None:
    while value >= 64:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)


def _signed(out: bytearray, value: int) -> None:
    _unsigned(out, -value << 1 | 1 if value < 0 else value << 1)
