"""Random numbers of Python's that a call draws: before its graph, in the program's order.

No check knows them, so nothing may hang on what they are but arithmetic, which CPython does, and operators.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .float_formulas import Formula

if TYPE_CHECKING:
    from dynamo_lite.records.source import Source


@dataclass(frozen=True, eq=False)
class Draw:
    """A call of a method of a ``random.Random``. ``source``: of that object; ``name``: of the local that the new code
    keeps the result in."""

    source: Source
    function: Callable[..., Any]
    args: tuple[Formula, ...]
    named: dict[str, Formula]
    name: str

    def __str__(self) -> str:
        given = [each.text(str) for each in self.args]
        given += [f"{name}={each.text(str)}" for name, each in self.named.items()]
        return f"{self.source}.{self.function.__name__}({', '.join(given)})"

    def load(self, cg: Any) -> None:
        """Emit what leaves the number on the stack."""
        cg.load_fast(self.name)

    def emit(self, cg: Any, load: Callable[[Any, Formula], None]) -> None:
        """Emit the call. ``load``: emits what leaves a formula's number on the stack."""
        args = [lambda: cg.load_source(self.source), *(lambda each=each: load(cg, each) for each in self.args)]
        named = {name: lambda each=each: load(cg, each) for name, each in self.named.items()}
        cg.call_named(self.function, args, named)
        cg.store_fast(self.name)


_STATE = "___random{}"


def emit_state_saves(cg: Any, draws: Iterable[Draw]) -> None:
    """Keep the states that are drawn from, as they are before."""
    for at, source in enumerate(_sources(draws)):
        cg.call(random.Random.getstate, [lambda source=source: cg.load_source(source)])
        cg.store_fast(_STATE.format(at))


def emit_state_restores(cg: Any, draws: Iterable[Draw]) -> None:
    """Put them back: the numbers are to be drawn once more."""
    for at, source in enumerate(_sources(draws)):
        loads = [lambda source=source: cg.load_source(source), lambda at=at: cg.load_fast(_STATE.format(at))]
        cg.call(random.Random.setstate, loads)
        cg.pop_top()


def _sources(draws: Iterable[Draw]) -> list[Source]:
    return list(dict.fromkeys(draw.source for draw in draws))
