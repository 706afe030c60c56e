"""Polyfills of ``functools``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

_MISSING = object()


def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _MISSING, /) -> Any:
    items = iter(iterable)
    if initial is _MISSING:
        initial = next(items, _MISSING)
        if initial is _MISSING:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in items:
        initial = function(initial, item)
    return initial


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {functools.reduce: reduce}
