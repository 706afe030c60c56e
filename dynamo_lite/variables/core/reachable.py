"""What frames, trackers and containers of trackers refer to, directly and transitively."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from dynamo_lite.records.side_effects import slots

from .base import LazyVariable, VariableTracker


class Holder:
    """A frame: a running one, or that of a suspended generator."""

    def held(self) -> Iterable[Any]:
        """The values of its variables and its stack."""
        raise NotImplementedError


def reachable_trackers(roots: Iterable[Any]) -> Iterator[VariableTracker]:
    """All trackers that frames, trackers and containers of them reach, themselves included."""
    waiting, seen = [*roots], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, VariableTracker):
            yield each
        waiting += referents_of(each)


_NOT_REFERENTS = frozenset({"value", "creator"})
"""Slots of trackers with the real object, and with the frame that created a cell, which may have ended."""
_SEQUENCES = frozenset(map(id, (list, tuple, deque)))


def referents_of(each: Any) -> Iterable[Any]:
    """What a tracker, a frame or a container of them refers to directly."""
    if isinstance(each, LazyVariable):
        return [each.realize()] if each.is_realized else ()
    if isinstance(each, VariableTracker):
        return [value for name, value in slots(each) if name not in _NOT_REFERENTS]
    if isinstance(each, Holder):
        return each.held()
    if type(each) is dict:
        return [*each, *each.values()]
    return each if id(type(each)) in _SEQUENCES else ()  # by id: a metaclass may define equality of its classes
