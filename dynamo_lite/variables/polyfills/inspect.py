"""The module ``inspect``."""

from __future__ import annotations

import inspect
import sys
from typing import Any

_NO_WRAPPERS: Any = type if sys.version_info >= (3, 13) else ()


def unwrap(func: Any, *, stop: Any = None) -> Any:
    """The original holds chains as long as the interpreter's recursion limit to be loops too: no trace gets there."""
    first, seen = func, [func]
    while not isinstance(func, _NO_WRAPPERS) and hasattr(func, "__wrapped__"):
        if stop is not None and stop(func):
            return func
        func = func.__wrapped__
        if any(each is func for each in seen):
            raise ValueError(f"wrapper loop when unwrapping {first!r}")
        seen.append(func)
    return func


TABLE: dict[Any, Any] = {inspect.unwrap: unwrap}
