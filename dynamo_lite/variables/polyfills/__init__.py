"""Polyfills: builtins and library functions that are written in C, as Python functions that a trace inlines.

One file for each module of the standard library; a function's name is that of the function it replaces. Most follow the
"roughly equivalent to" code of the reference documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    bisect,
    builtins,
    collections,
    copy,
    derived,
    distributed,
    functools,
    heapq,
    inspect,
    itertools,
    logging,
    operator,
    re,
)

TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    **bisect.TABLE,
    **builtins.TABLE,
    **collections.TABLE,
    **distributed.TABLE,
    **functools.TABLE,
    **inspect.TABLE,
    **logging.TABLE,
    **operator.TABLE,
}
"""The replaced callable -> the function that is inlined instead."""

__all__ = ["TABLE", "copy", "derived", "heapq", "itertools", "operator", "re"]
