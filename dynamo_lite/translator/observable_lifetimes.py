"""Arguments whose deallocation user code can observe (finalizers, weakref callbacks).

The instruction that drops the last reference to one runs in CPython, so the graph breaks before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dynamo_lite import _C
from dynamo_lite.variables.core.base import LazyVariable, VariableTracker
from dynamo_lite.variables.core.reachable import referents_of
from dynamo_lite.variables.python.objects.weak_reference import WeakReferenceVariable


class ObservableLifetimes:
    """The watched arguments of one attempt.

    Only the frame's own references are watched here. `SideEffects.check_deallocation` looks after references from
    attributes, containers and globals, which are dropped by overwriting them.
    """

    def __init__(self) -> None:
        self._watched: list[LazyVariable] = []

    def watch(self, arguments: Iterable[VariableTracker]) -> None:
        """Watch those of the frame's arguments whose deallocation is observable."""
        lazy = [each for each in arguments if isinstance(each, LazyVariable)]
        self._watched = [each for each in lazy if id(type(each.value)) not in _PLAIN and _C.is_seen_to_die(each.value)]

    @property
    def is_watching(self) -> bool:
        return bool(self._watched)

    def holds_watched(self, value: VariableTracker) -> bool:
        """Whether a watched argument is reachable from a value."""
        if not self._watched:
            return False
        watched = [_ids(each) for each in self._watched]
        return any(not reached.isdisjoint(each) for reached in _reachable_ids([value]) for each in watched)

    def close(self) -> None:
        self._watched = []

    def first_unreachable(self, holders: Iterable[Any]) -> LazyVariable | None:
        """The first watched argument that none of the holders refers to any more."""
        missing = [(each, _ids(each)) for each in self._watched]
        for reached in _reachable_ids(holders):
            missing = [(each, ids) for each, ids in missing if reached.isdisjoint(ids)]
            if not missing:
                return None
        return missing[0][0]


_PLAIN = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


def _ids(value: LazyVariable) -> set[int]:
    return {id(value), id(value.value), id(value.realize() if value.is_realized else value)}


def _reachable_ids(holders: Iterable[Any]) -> Iterator[set[int]]:
    """Breadth-first over what the holders refer to: after each level, the ids of all trackers and objects so far, keys
    of containers included. Most arguments are still in their variable, so callers rarely need a second level."""
    waiting, found = [*holders], set[int]()
    while waiting:
        new = [each for each in {id(each): each for each in waiting}.values() if id(each) not in found]
        found.update(map(id, new))
        for each in new:
            if isinstance(each, LazyVariable):
                found.update(_ids(each))
            elif isinstance(each, VariableTracker) and not isinstance(each, WeakReferenceVariable):
                found.add(id(getattr(each, "value", None)))
        yield found
        waiting = [held for each in new if not isinstance(each, WeakReferenceVariable) for held in referents_of(each)]
