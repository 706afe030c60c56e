"""Snapshots of what a tracker records of its object. Comparing two shows whether a mutation changed anything."""

from __future__ import annotations

from collections import deque
from typing import Any

from dynamo_lite.variables.core.base import VariableTracker, same_value, slot_values


class ObjectState:
    """What a tracker records of its object at this moment."""

    def __init__(self, tracker: VariableTracker) -> None:
        self._tracker = tracker
        self._recorded = _recorded(tracker)

    def is_current(self) -> bool:
        """Whether the tracker still records the same."""
        now = _recorded(self._tracker)
        return len(now) == len(self._recorded) and all(map(_same, now, self._recorded))


def _recorded(tracker: VariableTracker) -> list[object]:
    found: list[object] = []
    for value in slot_values(tracker, ("value",)):
        if type(value) is dict:  # isinstance would read `__class__` of user objects
            found += [dict, *value, *value.values()]
        elif type(value) in (list, deque):
            found += [list, *value]
        else:
            found.append(value)
    return found if tracker.payload is None else found + _recorded(tracker.payload)


def _same(one: Any, other: Any) -> bool:
    """Whether two things that trackers record are one tracker or object, or equal numbers or strings."""
    if one is other:
        return True
    kinds = type(one), type(other)
    if all(issubclass(kind, VariableTracker) for kind in kinds):
        return same_value(one, other)
    return kinds[0] is kinds[1] and id(kinds[0]) in _COMPARED and bool(one == other)


_COMPARED = frozenset(map(id, (str, int, bool)))
"""By id: a metaclass may define equality of its classes."""
