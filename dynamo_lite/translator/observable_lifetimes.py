"""Arguments whose deallocation user code can observe (finalizers, weakref callbacks).

The instruction that drops the last reference to one runs in CPython, so the graph breaks before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dynamo_lite import _C
from dynamo_lite.variables.core.base import LazyVariable, VariableTracker
from dynamo_lite.variables.core.reachable import references
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
        self._watched = [each for each in lazy if _C.is_lifetime_observed(each.value)]

    @property
    def is_watching(self) -> bool:
        return bool(self._watched)

    def holds_watched(self, value: VariableTracker) -> bool:
        """Whether a watched argument is reachable from a value."""
        watched = {key for each in self._watched for key in _ids(each)}
        return bool(watched) and any(not watched.isdisjoint(_ids(each)) for each in _reachable([value]))

    def close(self) -> None:
        self._watched = []

    def first_unreachable(self, holders: Iterable[object]) -> LazyVariable | None:
        """The first watched argument that none of the holders refers to any more."""
        missing = [(each, _ids(each)) for each in self._watched]
        for value in _reachable(holders):  # most arguments are still in their variable, so this ends early
            reached = _ids(value)
            missing = [(each, ids) for each, ids in missing if reached.isdisjoint(ids)]
            if not missing:
                return None
        return missing[0][0]


def _reachable(holders: Iterable[object]) -> Iterator[object]:
    """What the holders refer to, keys of containers included, but not the referents of weak references."""
    return references(holders, lambda each: not isinstance(each, WeakReferenceVariable))


def _ids(value: object) -> set[int]:
    """The ids of an object or a tracker, and of what a tracker stands for."""
    if not isinstance(value, VariableTracker) or isinstance(value, WeakReferenceVariable):
        return {id(value)}
    return {id(value), id(value.value), id(value.known())}
