"""What frames, trackers and containers of trackers refer to, directly and transitively."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .base import VariableTracker


class Holder:
    """A frame: a running one, or that of a suspended generator."""

    def children(self) -> Iterable[object]:
        """The values of its variables and its stack."""
        raise NotImplementedError


def reachable(roots: Iterable[object]) -> Iterator[VariableTracker]:
    """All trackers that frames, trackers and containers of them reach, themselves included, each once."""
    seen = set[int]()
    for each in references(roots):
        if isinstance(each, VariableTracker) and id(each) not in seen:
            seen.add(id(each))
            yield each


def references(roots: Iterable[object], enters: Callable[[object], bool] | None = None) -> Iterator[object]:
    """The roots, then what they refer to, and so on: breadth-first, each object as often as it is referred to.

    ``enters``: whether what an object refers to is reached through it.
    """
    level, seen = [*roots], set[int]()
    while level:
        yield from level
        deeper: list[object] = []
        for each in level:
            if id(each) not in seen:
                seen.add(id(each))
                if enters is None or enters(each):
                    deeper += _children_of(each)
        level = deeper


_SEQUENCES = frozenset(map(id, (list, tuple, deque)))


def _children_of(each: Any) -> Iterable[object]:
    if isinstance(each, (VariableTracker, Holder)):
        return each.children()
    if type(each) is dict:
        return [*each, *each.values()]
    return each if id(type(each)) in _SEQUENCES else ()  # by id: a metaclass may define equality of its classes
