"""Lazy wrapping of real values, and the registry from their types to trackers.

A value reached through a `Source` is wrapped as a `LazyVariable`. The first `realize` picks its kind in `wrap` and adds
the guards; a value that is only passed along is never wrapped and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source

from .base import Attempt, VariableTracker
from .class_lookup import class_compares_by_identity


class LazyVariable(VariableTracker):
    """A value with a source that isn't wrapped yet: it has no guards."""

    __slots__ = ("value", "attempt", "_real")

    def __init__(self, attempt: Attempt, value: Any, source: Source) -> None:
        self.source: Source = source
        self.value = value
        self.attempt = attempt
        self._real: VariableTracker | None = None

    def realize(self) -> VariableTracker:
        real = self._real
        if real is None:
            real = self._real = wrap(self.attempt, self.value, self.source)
        return real

    def known(self) -> VariableTracker:
        return self if self._real is None else self._real

    def children(self) -> Iterable[object]:
        return () if self._real is None else (self._real,)

    def rewrap(self) -> None:
        """Replace the tracker by the one that it realizes to, now that it was specialized."""
        self._real = self.realize().realize()


_SIMPLE = (int, float, bool, str, bytes, type(None))

WrapFn = Callable[[Attempt, Any, Source], VariableTracker]
_BY_TYPE: dict[type, WrapFn] = {}
_PREDICATES: list[tuple[int, Callable[[Any], bool], WrapFn]] = []


def wraps_type(*types: type) -> Callable[[WrapFn], WrapFn]:
    """Register how values of exactly these types are wrapped."""

    def register(fn: WrapFn) -> WrapFn:
        for each in types:
            _BY_TYPE[each] = fn
        return fn

    return register


def wraps_if(predicate: Callable[[Any], bool], order: int = 50) -> Callable[[WrapFn], WrapFn]:
    """Register how values are wrapped for which ``predicate`` holds. Lower ``order`` is tried first."""

    def register(fn: WrapFn) -> WrapFn:
        _PREDICATES.append((order, predicate, fn))
        _PREDICATES.sort(key=lambda row: row[0])
        return fn

    return register


def wrap(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    """The tracker of the real value at ``source``. An object has one tracker in an attempt, whatever aliases it has."""
    kind = type(value)
    comparable = class_compares_by_identity(kind)
    if comparable and kind in _SIMPLE:
        return _BY_TYPE[kind](attempt, value, source)
    known = attempt.values.memo.get(identity(value))
    if known is not None:
        return attempt.values.add_alias(known[1], value, source)
    if comparable:
        fn = _BY_TYPE.get(kind) or next(row[2] for row in _PREDICATES if row[1](value))
        found = fn(attempt, value, source)
    else:
        found = attempt.values.opaque(value, source, "its metaclass defines equality of classes")
    attempt.values.memo[identity(value)] = (value, found)
    return found
