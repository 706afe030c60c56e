"""Polyfills of ``bisect``."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import Any


def bisect_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
    lo, hi = _bounds(a, lo, hi)
    while lo < hi:
        middle = (lo + hi) // 2
        item = a[middle]
        if x < (item if key is None else key(item)):
            hi = middle
        else:
            lo = middle + 1
    return lo


def bisect_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
    lo, hi = _bounds(a, lo, hi)
    while lo < hi:
        middle = (lo + hi) // 2
        item = a[middle]
        if (item if key is None else key(item)) < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


def _bounds(a: Any, lo: Any, hi: Any) -> tuple[Any, Any]:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    return lo, len(a) if hi is None or hi == -1 else hi


def insort_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    bisect.bisect_right: bisect_right,
    bisect.bisect_left: bisect_left,
    bisect.insort_right: insort_right,
    bisect.insort_left: insort_left,
}
"""``bisect.bisect`` is ``bisect_right``, and ``bisect.insort`` is ``insort_right``."""
