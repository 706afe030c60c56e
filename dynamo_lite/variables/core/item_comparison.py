"""Compares items of containers as C code does. Detects that a user's ``__eq__`` mutates a container meanwhile."""

from __future__ import annotations

import operator
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation

from .base import VariableTracker, unsupported
from .protocols import Translator


class ItemComparison:
    """One comparison, search or count over the items of containers. C code reads each item again after an ``__eq__``
    ran; our loops don't, so the graph breaks if one of the containers has changed."""

    def __init__(self, tx: Translator, *containers: Any) -> None:
        self._tx = tx
        self._containers = containers
        self._items = self._current_items()
        self._effects = tx.effects.count

    def _current_items(self) -> list[Any]:
        items = (each.items for each in self._containers)
        return [item for each in items for item in (*each, *(each.values() if isinstance(each, dict) else ()))]

    def equal(self, one: VariableTracker, other: VariableTracker) -> bool:
        """``one is other or one == other``."""
        result = self._tx.same_or_equal(one, other)
        if self._tx.effects.count != self._effects:
            current = self._current_items()
            if len(current) != len(self._items) or not all(map(operator.is_, current, self._items)):
                unsupported(UnsupportedOperation("a comparison that mutates it", self._containers[0].describe()))
            self._effects = self._tx.effects.count
        return result
