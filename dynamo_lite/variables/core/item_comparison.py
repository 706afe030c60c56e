"""Compares items of containers as C code does. Detects that a user's ``__eq__`` mutates a container meanwhile."""

from __future__ import annotations

from dynamo_lite.insight.break_reasons import UnsupportedOperation

from .base import VariableTracker, unsupported
from .protocols import Translator


class ItemComparison:
    """One comparison, search or count over the items of containers. C code reads each item again after an ``__eq__``
    ran; our loops don't, so the graph breaks if one of the containers was mutated."""

    def __init__(self, tx: Translator, *containers: VariableTracker) -> None:
        self._tx = tx
        self._containers = containers
        self._before = tx.effects.count

    def equal(self, one: VariableTracker, other: VariableTracker) -> bool:
        """``one is other or one == other``."""
        result = self._tx.same_or_equal(one, other)
        effects = self._tx.effects
        if effects.count != self._before and any(effects.last(each) > self._before for each in self._containers):
            unsupported(UnsupportedOperation("a comparison that mutates it", self._containers[0].describe()))
        return result
