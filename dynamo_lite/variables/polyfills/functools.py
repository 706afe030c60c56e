"""Polyfills of ``functools``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

_MISSING = object()


def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[object], initial: object = _MISSING, /) -> Any:
    items = iter(iterable)
    if initial is _MISSING:
        initial = next(items, _MISSING)
        if initial is _MISSING:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in items:
        initial = function(initial, item)
    return initial


class _ComparedBy:
    """What a function of ``cmp_to_key`` returns."""

    __slots__ = ("cmp", "obj")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, cmp: Callable[[Any, Any], Any], obj: object) -> None:
        self.cmp = cmp
        self.obj = obj

    def __lt__(self, other: _ComparedBy) -> Any:
        return self.cmp(self.obj, other.obj) < 0

    def __gt__(self, other: _ComparedBy) -> Any:
        return self.cmp(self.obj, other.obj) > 0

    def __eq__(self, other: object) -> Any:
        assert isinstance(other, _ComparedBy)
        return self.cmp(self.obj, other.obj) == 0

    def __le__(self, other: _ComparedBy) -> Any:
        return self.cmp(self.obj, other.obj) <= 0

    def __ge__(self, other: _ComparedBy) -> Any:
        return self.cmp(self.obj, other.obj) >= 0


def cmp_to_key(mycmp: Callable[[Any, Any], Any]) -> Callable[[Any], _ComparedBy]:
    return lambda obj: _ComparedBy(mycmp, obj)


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    functools.reduce: reduce,
    functools.cmp_to_key: cmp_to_key,
}
