"""Polyfills of ``operator``: its functions that are not operators of Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def call(function: Callable[..., T], /, *args: object, **kwargs: object) -> T:
    return function(*args, **kwargs)


def concat(a: Any, b: Any, /) -> Any:
    if not hasattr(a, "__getitem__"):
        raise TypeError(f"'{type(a).__name__}' object can't be concatenated")
    return a + b


def iconcat(a: Any, b: Any, /) -> Any:
    if not hasattr(a, "__getitem__"):
        raise TypeError(f"'{type(a).__name__}' object can't be concatenated")
    a += b
    return a


def count_of(a: Iterable[object], b: object, /) -> int:
    count = 0
    for item in a:
        if item is b or item == b:
            count += 1
    return count


def index_of(a: Iterable[object], b: object, /) -> int:
    for at, item in enumerate(a):
        if item is b or item == b:
            return at
    raise ValueError("sequence.index(x): x not in sequence")


def setitem(a: Any, b: object, c: object, /) -> None:
    a[b] = c


def delitem(a: Any, b: object, /) -> None:
    del a[b]


def prod(iterable: Iterable[Any], /, *, start: Any = 1) -> Any:
    for item in iterable:
        start = start * item
    return start


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    operator.call: call,
    operator.concat: concat,
    operator.iconcat: iconcat,
    operator.countOf: count_of,
    operator.indexOf: index_of,
    operator.setitem: setitem,
    operator.delitem: delitem,
}
