"""Polyfills of builtins that iterate (``all``, ``any``, ``min``, ``max``), and of iteration by ``__getitem__``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

_MISSING = object()


def all_(iterable: Any) -> bool:
    for item in iterable:
        if not item:
            return False
    return True


def any_(iterable: Any) -> bool:
    for item in iterable:
        if item:
            return True
    return False


def _pick(better: Any, name: str, args: Any, key: Any, default: Any) -> Any:
    items = iter(args[0] if len(args) == 1 else args)
    best = _MISSING
    best_key = None
    for item in items:
        item_key = item if key is None else key(item)
        if best is _MISSING or better(item_key, best_key):
            best, best_key = item, item_key
    if best is not _MISSING:
        return best
    if default is _MISSING:
        raise ValueError(name + "() arg is an empty sequence")
    return default


def min_(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
    return _pick(lambda a, b: a < b, "min", args, key, default)


def max_(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
    return _pick(lambda a, b: a > b, "max", args, key, default)


def iterate_by_getitem(sequence: Any) -> Iterator[Any]:
    """What a loop over an object without ``__iter__`` reads."""
    at = 0
    while True:
        try:
            item = sequence[at]
        except (IndexError, StopIteration):
            return
        yield item
        at += 1


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {all: all_, any: any_, min: min_, max: max_}
