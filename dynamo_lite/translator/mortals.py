"""Arguments of a frame whose death the program may see: the step that lets go of one is CPython's to take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from ..side_effects import slots
from ..variables.base import LazyVariable, VariableTracker
from ..variables.deaths import is_seen_to_die
from ..variables.weak_reference import WeakReferenceVariable


class Holder:
    """A frame that is under way, or a generator's that waits."""

    def held(self) -> Iterable[Any]:
        """What its variables and its stack have."""
        raise NotImplementedError


class Mortals:
    """What else holds an object has a place of its own, and writing there is looked after by `SideEffects.let_go`."""

    def __init__(self) -> None:
        self._held: list[LazyVariable] = []

    def among(self, arguments: Iterable[VariableTracker]) -> None:
        """Those of the frame that is translated."""
        lazy = [each for each in arguments if isinstance(each, LazyVariable)]
        self._held = [each for each in lazy if id(type(each.value)) not in _PLAIN and is_seen_to_die(each.value)]

    @property
    def there_are(self) -> bool:
        return bool(self._held)

    def held_by(self, value: VariableTracker) -> bool:
        """Whether one is, or is in, a value."""
        if not self._held:
            return False
        found = _reached([value])
        return not all(found.isdisjoint(_ids(each)) for each in self._held)

    def close(self) -> None:
        self._held = []

    def lost(self, holders: Iterable[Any]) -> LazyVariable | None:
        """One that nothing has any more."""
        found = _reached(holders)
        return next((each for each in self._held if found.isdisjoint(_ids(each))), None)


_HELD_BY_NOBODY = frozenset({"value", "maker"})
"""Slots of trackers with the real object, and with the frame that made a cell, which may be over."""
_SEQUENCES = frozenset(map(id, (list, tuple, deque)))
_PLAIN = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


def _ids(value: LazyVariable) -> set[int]:
    return {id(value), id(value.value), id(value.realize() if value.realized else value)}


def _reached(holders: Iterable[Any]) -> set[int]:
    """Ids of all that trackers have in them, keys that stand for themselves among it."""
    waiting, found = [*holders], set()
    while waiting:
        each = waiting.pop()
        if id(each) in found:
            continue
        found.add(id(each))
        if isinstance(each, LazyVariable):
            found.update(_ids(each))
        elif isinstance(each, WeakReferenceVariable):
            continue
        elif isinstance(each, VariableTracker):
            found.add(id(getattr(each, "value", None)))
        waiting += held_in(each)
    return found


def held_in(each: Any) -> Iterable[Any]:
    """What a tracker, a frame or a container of them has in it."""
    if isinstance(each, LazyVariable):
        return [each.realize()] if each.realized else ()
    if isinstance(each, VariableTracker):
        return [value for name, value in slots(each) if name not in _HELD_BY_NOBODY]
    if isinstance(each, Holder):
        return each.held()
    if type(each) is dict:
        return [*each, *each.values()]
    return each if id(type(each)) in _SEQUENCES else ()  # a metaclass may compare classes
