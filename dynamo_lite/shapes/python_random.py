"""Calls of Python's ``random``, replayed in program order before the graph runs.

Guards can't check the drawn values, so a trace may only do arithmetic on them or pass them to operators; a branch on
one breaks the graph.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from .float_formulas import Formula

if TYPE_CHECKING:
    from dynamo_lite.records.source import Source
    from dynamo_lite.variables.core.protocols import Codegen


@dataclass(frozen=True, eq=False)
class RandomCall:
    """A call of a method of a ``random.Random``."""

    source: Source
    """Of the ``random.Random``."""
    function: Callable[..., Any]
    args: tuple[Formula, ...]
    named: dict[str, Formula]
    name: str
    """The local variable of the generated code that keeps the result."""

    def __str__(self) -> str:
        given = [each.text(str) for each in self.args]
        given += [f"{name}={each.text(str)}" for name, each in self.named.items()]
        name = self.function.__name__
        owner = str(self.source).removesuffix(f".{name}.__self__")  # the generator is reached through its own method
        return f"{owner}.{name}({', '.join(given)})"

    def load(self, cg: Codegen) -> None:
        """Emit code that pushes the drawn number."""
        cg.load_fast(self.name)

    def emit(self, cg: Codegen, load: Callable[[Codegen, Formula], None]) -> None:
        """Emit the call. ``load`` emits code that pushes a formula's value."""
        args = [partial(cg.load_source, self.source), *(partial(load, cg, each) for each in self.args)]
        named: dict[str, Callable[[], None]] = {name: partial(load, cg, each) for name, each in self.named.items()}
        cg.call_named(self.function, args, named)
        cg.store_fast(self.name)


_STATE = "___random{}"
"""Local variables of the generated code that keep the generators' states."""


def emit_state_saves(cg: Codegen, calls: Iterable[RandomCall]) -> None:
    """Emit code that saves the state of each generator that these calls draw from."""
    for at, source in enumerate(_sources(calls)):
        cg.call(random.Random.getstate, [partial(cg.load_source, source)])
        cg.store_fast(_STATE.format(at))


def emit_state_restores(cg: Codegen, calls: Iterable[RandomCall]) -> None:
    """Emit code that restores the saved states, so that eager code draws the same numbers again."""
    for at, source in enumerate(_sources(calls)):
        loads = [partial(cg.load_source, source), partial(cg.load_fast, _STATE.format(at))]
        cg.call(random.Random.setstate, loads)
        cg.pop_top()


def _sources(calls: Iterable[RandomCall]) -> list[Source]:
    return list(dict.fromkeys(call.source for call in calls))
