"""Pytrees of trackers: lists, tuples and dicts are nodes, all other values are leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dynamo_lite.variables.core.base import Translator, VariableTracker


def structure_leaves(value: VariableTracker) -> Iterator[VariableTracker]:
    """The leaves of a structure in order, realized."""
    value = value.realize()
    items = value.structure_items()
    if items is None:
        yield value
    else:
        for item in items:
            yield from structure_leaves(item)


def map_structure(
    tx: Translator, value: VariableTracker, change: Callable[[VariableTracker], VariableTracker]
) -> VariableTracker:
    """A structure like ``value`` with ``change(leaf)`` for each leaf, in order."""
    value = value.realize()
    items = value.structure_items()
    if items is None:
        return change(value)
    return value.with_structure_items(tx, iter([map_structure(tx, item, change) for item in items]))
