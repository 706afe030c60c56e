"""Polyfills of ``bisect``."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Callable
from typing import Any

Key = Callable[[Any], Any]


_NEGATIVE = "lo cannot be negative" if sys.version_info >= (3, 15) else "lo must be non-negative"


def _length(a: Any) -> int:
    if isinstance(a, dict):
        raise TypeError("dict is not a sequence")
    return len(a)


def bisect_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Key | None = None) -> int:
    if lo < 0:
        raise ValueError(_NEGATIVE)
    end = _length(a) if hi is None or hi == -1 else hi
    while lo < end:
        middle = (lo + end) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            end = middle
        else:
            lo = middle + 1
    return lo


def bisect_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Key | None = None) -> int:
    if lo < 0:
        raise ValueError(_NEGATIVE)
    end = _length(a) if hi is None or hi == -1 else hi
    while lo < end:
        middle = (lo + end) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            end = middle
    return lo


def insort_right(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Key | None = None) -> None:
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_left(a: Any, x: Any, lo: int = 0, hi: int | None = None, *, key: Key | None = None) -> None:
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    bisect.bisect_right: bisect_right,
    bisect.bisect_left: bisect_left,
    bisect.insort_right: insort_right,
    bisect.insort_left: insort_left,
}
