"""What is reachable from frames, trackers and containers of trackers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from dynamo_lite.records.side_effects import slots

from .base import LazyVariable, VariableTracker


class Holder:
    """A frame that is under way, or a generator's that waits."""

    def held(self) -> Iterable[Any]:
        """What its variables and its stack have."""
        raise NotImplementedError


def reachable_trackers(holders: Iterable[Any]) -> Iterator[VariableTracker]:
    """All that frames, trackers and containers of them have in them."""
    waiting, found = [*holders], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in found:
            continue
        found.add(id(each))
        if isinstance(each, VariableTracker):
            yield each
        waiting += referents_of(each)


_HELD_BY_NOBODY = frozenset({"value", "maker"})
"""Slots of trackers with the real object, and with the frame that made a cell, which may be over."""
_SEQUENCES = frozenset(map(id, (list, tuple, deque)))


def referents_of(each: Any) -> Iterable[Any]:
    """What a tracker, a frame or a container of them has in it."""
    if isinstance(each, LazyVariable):
        return [each.realize()] if each.is_realized else ()
    if isinstance(each, VariableTracker):
        return [value for name, value in slots(each) if name not in _HELD_BY_NOBODY]
    if isinstance(each, Holder):
        return each.held()
    if type(each) is dict:
        return [*each, *each.values()]
    return each if id(type(each)) in _SEQUENCES else ()  # a metaclass may compare classes
