"""Arguments of a frame whose death the program may see: the step that lets go of one is CPython's to take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dynamo_lite import _C
from dynamo_lite.variables.core.base import LazyVariable, VariableTracker
from dynamo_lite.variables.core.reachable import referents_of
from dynamo_lite.variables.python.objects.weak_reference import WeakReferenceVariable


class ObservableLifetimes:
    """What else holds an object has a place of its own, and writing there is looked after by `SideEffects.check_deallocation`."""

    def __init__(self) -> None:
        self._held: list[LazyVariable] = []

    def among(self, arguments: Iterable[VariableTracker]) -> None:
        """Those of the frame that is translated."""
        lazy = [each for each in arguments if isinstance(each, LazyVariable)]
        self._held = [each for each in lazy if id(type(each.value)) not in _PLAIN and _C.is_seen_to_die(each.value)]

    @property
    def there_are(self) -> bool:
        return bool(self._held)

    def holds_watched(self, value: VariableTracker) -> bool:
        """Whether one is, or is in, a value."""
        if not self._held:
            return False
        mortal = [_ids(each) for each in self._held]
        return any(not found.isdisjoint(each) for found in _reached([value]) for each in mortal)

    def close(self) -> None:
        self._held = []

    def lost(self, holders: Iterable[Any]) -> LazyVariable | None:
        """One that nothing has any more."""
        missing = [(each, _ids(each)) for each in self._held]
        for found in _reached(holders):
            missing = [each for each in missing if found.isdisjoint(each[1])]
            if not missing:
                return None
        return missing[0][0]


_PLAIN = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


def _ids(value: LazyVariable) -> set[int]:
    return {id(value), id(value.value), id(value.realize() if value.is_realized else value)}


def _reached(holders: Iterable[Any]) -> Iterator[set[int]]:
    """Ids of all that trackers have in them, keys that stand for themselves among it: those known so far, each time
    before what was found last is looked into. An argument is in its variable, as a rule, and what the others have in
    them is not asked then."""
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
