"""Polyfills of builtins that iterate (``all``, ``any``, ``min``, ``max``), and of ``os.fspath``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

Key = Callable[[Any], Any]
_MISSING = object()


def all_(iterable: Iterable[object]) -> bool:
    for item in iterable:
        if not item:
            return False
    return True


def any_(iterable: Iterable[object]) -> bool:
    for item in iterable:
        if item:
            return True
    return False


def _pick(
    better: Callable[[Any, Any], bool], name: str, args: tuple[Any, ...], key: Key | None, default: object
) -> Any:
    if not args:
        raise TypeError(name + " expected at least 1 argument, got 0")
    if len(args) > 1 and default is not _MISSING:
        raise TypeError("Cannot specify a default for " + name + "() with multiple positional arguments")
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


def min_(*args: object, key: Key | None = None, default: object = _MISSING) -> Any:
    return _pick(lambda a, b: a < b, "min", args, key, default)


def max_(*args: object, key: Key | None = None, default: object = _MISSING) -> Any:
    return _pick(lambda a, b: a > b, "max", args, key, default)


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    all: all_,
    any: any_,
    min: min_,
    max: max_,
    os.fspath: os._fspath,  # type: ignore[attr-defined]
}
