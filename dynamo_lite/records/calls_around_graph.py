"""Calls that generated code makes before or after the graph, for their effects outside of the program's data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo_lite.variables.core.base import VariableTracker
    from dynamo_lite.variables.core.protocols import Codegen

    from .source import Source


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

    def emit(self, cg: Codegen) -> None:
        loads = [partial(cg.load_source, each) for each in self.sources]
        cg.call(self.function, [*loads, *(partial(cg.load_const, each) for each in self.args)])
        cg.store_fast(self.result) if self.result else cg.pop_top()

    def emit_undo(self, cg: Codegen) -> None:
        if self.undo is not None:
            cg.call_for_effect(self.undo, [partial(cg.load_fast, self.result)])


class CallAfterGraph:
    """A noted effect: a call with values of the program."""

    def __init__(self, function: Callable[..., object], *args: VariableTracker) -> None:
        self.function = function
        self.args = args

    def replay(self, cg: Codegen) -> None:
        cg.call_for_effect(self.function, [partial(cg.load, each) for each in self.args])
