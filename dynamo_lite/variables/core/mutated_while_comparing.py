"""Containers while C code compares what is in them: it looks at each item anew, whatever a comparison did."""

from __future__ import annotations

import operator
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation

from .base import VariableTracker, unsupported
from .protocols import Translator


class ItemComparison:
    """Containers whose parts are compared by methods of the program's: one that changes them breaks the graph."""

    def __init__(self, tx: Translator, *containers: Any) -> None:
        self._tx = tx
        self._containers = containers
        self._parts = self._now()
        self._seen = tx.effects.count

    def _now(self) -> list[Any]:
        return [part for each in self._containers for part in (*each.items, *getattr(each.items, "values", list)())]

    def equal(self, one: VariableTracker, other: VariableTracker) -> bool:
        """``one is other or one == other``."""
        found = self._tx.same_or_equal(one, other)
        if self._tx.effects.count != self._seen:
            now = self._now()
            if len(now) != len(self._parts) or not all(map(operator.is_, now, self._parts)):
                unsupported(UnsupportedOperation("a comparison which changes it", self._containers[0].describe()))
            self._seen = self._tx.effects.count
        return found
