"""Polyfills of ``operator``: its functions that are not operators of Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


def call(function: Callable[..., T], /, *args: object, **kwargs: object) -> T:
    return function(*args, **kwargs)


def setitem(a: Any, b: object, c: object, /) -> None:
    a[b] = c


def delitem(a: Any, b: object, /) -> None:
    del a[b]


def prod(iterable: Iterable[object], /, *, start: Any = 1) -> Any:
    for item in iterable:
        start = start * item
    return start


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    operator.call: call,
    operator.setitem: setitem,
    operator.delitem: delitem,
}
