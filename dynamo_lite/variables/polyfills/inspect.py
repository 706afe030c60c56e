"""Polyfills of ``inspect``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

_NO_WRAPPERS: Any = type if sys.version_info >= (3, 13) else ()


def unwrap(func: Any, *, stop: Callable[[Any], object] | None = None) -> Any:
    """``inspect.unwrap``, without its limit on the length of chains, which no trace reaches."""
    first, seen = func, [func]
    while not isinstance(func, _NO_WRAPPERS) and hasattr(func, "__wrapped__"):
        if stop is not None and stop(func):
            return func
        func = func.__wrapped__
        if any(each is func for each in seen):
            raise ValueError(f"wrapper loop when unwrapping {first!r}")
        seen.append(func)
    return func


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {inspect.unwrap: unwrap}
