"""Calls that generated code makes before or after the graph, for their effects outside of the program's data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo_lite.sources.source import Source
    from dynamo_lite.variables.core.base import Planner, VariableTracker


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


class CallAfterGraph:
    """A noted effect: a call with values of the program."""

    def __init__(self, function: Callable[..., object], *args: VariableTracker) -> None:
        self.function = function
        self.args = args

    def replay(self, plan: Planner) -> None:
        plan.do(self.function, *self.args)
