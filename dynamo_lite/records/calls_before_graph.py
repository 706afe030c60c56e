"""Calls that generated code makes before the graph, for their effects outside of the program's data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dynamo_lite.sources.source import Source


@dataclass(frozen=True, eq=False)
class CallBeforeGraph:
    """A call of ``function``, given pre-existing objects and constants."""

    function: Callable[..., object]
    sources: tuple[Source, ...] = ()
    """Of the pre-existing objects, the first arguments."""
    args: tuple[Any, ...] = ()
    result: str = ""
    """The local variable of the generated code that keeps the result; empty: it is dropped."""
    undo: Callable[[Any], object] | None = None
    """Called with the result if the frame runs again in eager."""


@dataclass
class BeforeGraph:
    """The work that generated code does before it calls the graph."""

    calls: list[CallBeforeGraph] = field(default_factory=list)
    """Calls, in program order."""
    restores_random_state = False
    """Whether the program has restored a state of torch's generators, which is done after the graph."""

    def close(self) -> None:
        self.calls.clear()
