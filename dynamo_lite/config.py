"""Settings. ``with config.patch(recompile_limit=2): ...`` changes them for a while, for every thread."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

recompile_limit: int = 8
"""Entries a code object may have for one ``dl.compile``; past it the frame runs eager, with one warning. A method of
modules may have as many for each module,"""

total_recompile_limit: int = 128
"""and so many in all."""

inline_limit: int = 60
"""Depth of calls that are inlined into one graph; a deeper call breaks it."""

unroll_limit: int = 200_000
"""Bytecodes one attempt may interpret before it gives the frame up (a loop that never ends would hang the tracer)."""

capture_scalar_outputs: bool = False
"""Whether numbers that are read from tensors' data (``.item()``), and sizes that hang on it (``nonzero``), go into the
graph as symbols; else the graph breaks there."""

translate_library: bool = False
"""Whether frames of the standard library that are called from outside of a trace are looked at. They hold nothing for
a graph, as a rule; it shows that looking at any frame at all does no harm."""

_SETTINGS = (
    "recompile_limit",
    "total_recompile_limit",
    "inline_limit",
    "unroll_limit",
    "capture_scalar_outputs",
    "translate_library",
)


def values() -> tuple[Any, ...]:
    """All settings, in one order."""
    here = sys.modules[__name__]
    return tuple(getattr(here, name) for name in _SETTINGS)


@contextlib.contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Set some settings inside a ``with``.

    Raises:
        AttributeError: there is no such setting; the message names those there are.
    """
    here = sys.modules[__name__]
    for name in changes:
        if name not in _SETTINGS:
            raise AttributeError(f"no setting {name!r}; there are: {', '.join(_SETTINGS)}")
    before = {name: getattr(here, name) for name in changes}
    for name, value in changes.items():
        setattr(here, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(here, name, value)
