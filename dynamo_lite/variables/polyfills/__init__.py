"""Builtins and library functions that are written in C, as short Python functions: a trace inlines them like anyone's.

One file a module. Each replaces the function of the same name. They follow the reference documentation's "roughly
equivalent to" where it has one.
"""

from __future__ import annotations

from typing import Any

from . import (
    bisect,
    builtins,
    collections,
    copy,
    distributed,
    functools,
    heapq,
    inspect,
    itertools,
    logging,
    operator,
    re,
)

TABLE: dict[Any, Any] = {
    **bisect.TABLE,
    **builtins.TABLE,
    **collections.TABLE,
    **distributed.TABLE,
    **functools.TABLE,
    **inspect.TABLE,
    **logging.TABLE,
    **operator.TABLE,
}
"""The real callable -> what is inlined for it."""

__all__ = ["TABLE", "copy", "heapq", "itertools", "operator", "re"]
