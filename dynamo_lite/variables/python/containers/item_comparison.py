"""Comparisons and searches of containers: CPython's own methods run on real containers of stand-ins for the items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.deferred_text import concatenated


class StandIn:
    """Stands for an item: where CPython compares two of them, the items are compared in the traced program."""

    __slots__ = ("comparison", "item")

    def __init__(self, comparison: ItemComparison, item: VariableTracker) -> None:
        self.comparison = comparison
        self.item = item

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: Any) -> bool:
        return self.comparison.equal(self.item, other.item)

    def __lt__(self, other: StandIn) -> VariableTracker:
        return self.comparison.ordered("<", self, other)

    def __le__(self, other: StandIn) -> VariableTracker:
        return self.comparison.ordered("<=", self, other)

    def __gt__(self, other: StandIn) -> VariableTracker:
        return self.comparison.ordered(">", self, other)

    def __ge__(self, other: StandIn) -> VariableTracker:
        return self.comparison.ordered(">=", self, other)

    def __repr__(self) -> str:
        return _REPR


_REPR = "<the item that is searched>"
"""Stands for its ``repr`` in texts of errors."""


class ItemComparison:
    """One comparison, search or count over the items of containers. C code reads each item again after an ``__eq__``
    ran, stand-ins stay as they are: so the graph breaks if one of the containers was mutated."""

    def __init__(self, tx: Translator, *containers: VariableTracker) -> None:
        self._tx = tx
        self._containers = containers
        self._before = tx.effects.count

    def stand_ins(self, items: Iterable[VariableTracker]) -> list[StandIn]:
        return [StandIn(self, item) for item in items]

    def call(self, method: Callable[..., Any], *args: object) -> Any:
        """Call a function in C, which may take items from traced iterators. The program raises what it raises."""
        try:
            return method(*args)
        except (ValueError, IndexError, TypeError) as error:
            trace = error.__traceback__
            if trace is None or trace.tb_next is not None:  # it comes from an iterator, or the comparison of two items
                raise
            before, *after = str(error).split(_REPR)
            searched = (each.item.realize().text(self._tx, "__repr__") for each in args if isinstance(each, StandIn))
            text = concatenated(self._tx, [before, *(part for rest in after for part in (next(searched), rest))])
            self._tx.raise_with(type(error), [text])

    def equal(self, one: VariableTracker, other: VariableTracker) -> bool:
        """``one is other or one == other``."""
        result = self._tx.same_or_equal(one, other)
        effects = self._tx.effects
        if effects.count != self._before and any(effects.last(each) > self._before for each in self._containers):
            unsupported(UnsupportedOperation("a comparison that mutates it", self._containers[0].describe()))
        return result

    def ordered(self, symbol: str, one: StandIn, other: StandIn) -> VariableTracker:
        return self._tx.compare(symbol, one.item.realize(), other.item.realize())
