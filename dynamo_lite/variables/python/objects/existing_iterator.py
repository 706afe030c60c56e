"""Pre-existing builtin iterators. Most come from a loop that a graph break is in: the resume function has the iterator.

Their next items are guarded by their offset from the iterator's position, so one compiled entry serves all iterations
of the loop. Generated code advances the iterators before it replays any other side effect, so that the containers are
as they were when the items were guarded.
"""

from __future__ import annotations

import copy
import gc
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import ChangedDuringIteration
from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, Exhausted, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import IteratorVariable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type
from dynamo_lite.variables.polyfills.recreation import advance_iterator
from dynamo_lite.variables.python.containers.sequences import TupleVariable, wrap_items

from .user_object import instance_dict

_DICT_ITEM_ITERATOR: type = type(iter({}.items()))
_ITERATED: tuple[Any, ...] = ([], (), range(0), {}, {}.values(), set(), reversed([]))
_CONTAINER_ITERATORS: tuple[type, ...] = (*dict.fromkeys(map(type, map(iter, _ITERATED))), _DICT_ITEM_ITERATOR)


class ExistingIterator(IteratorVariable):
    """Base class. ``taken``: number of ``next`` calls; ``taken_by_outer``: those by an enumerate or zip over it."""

    __slots__ = ("value", "taken", "taken_by_outer")
    source: Source
    replay_rank = 0

    def __init__(self, value: Any, source: Source) -> None:
        self.source = source
        self.value = value
        self.taken = 0
        self.taken_by_outer = 0

    def python_type(self) -> type:
        return type(self.value)

    def next(self, tx: Translator) -> VariableTracker:
        return self.next_lazily(tx).realize()

    def next_lazily(self, tx: Translator) -> VariableTracker:
        tx.effects.mutate(self)
        self.taken += 1
        return self._take(tx)

    def _take(self, tx: Translator) -> VariableTracker:
        raise NotImplementedError

    def replay(self, plan: Planner) -> None:
        count = self.taken - self.taken_by_outer
        if count:
            plan.do(advance_iterator, plan.reload(self.source), plan.constant(count))


class ContainerIterator(ExistingIterator):
    """An iterator over a container or range. ``copy``: a copy that tracing advances; ``read``: how many items
    it has returned."""

    __slots__ = ("attempt", "copy", "read", "is_exhausted")

    def __init__(self, attempt: Attempt, value: Any, source: Source, copied: Iterator[Any]) -> None:
        super().__init__(value, source)
        self.attempt = attempt
        self.copy = copied
        self.read = 0
        self.is_exhausted = False

    def _take(self, tx: Translator) -> VariableTracker:
        if self.is_exhausted:
            raise Exhausted
        self._check_unmodified(tx)
        at = self.read
        try:
            item = next(self.copy)
        except StopIteration:
            self.is_exhausted = True
            self.source.child("next_item", at).check("unbound")
            raise Exhausted from None
        self.read += 1
        first = self.source.child("next_item", at).expect()
        if type(self.value) is not _DICT_ITEM_ITERATOR:
            return LazyVariable(self.attempt, item, first)
        second = self.source.child("next_value", at).expect()
        return TupleVariable([LazyVariable(self.attempt, item[0], first), LazyVariable(self.attempt, item[1], second)])

    def _check_unmodified(self, tx: Translator) -> None:
        """The copy iterates over the container as it was at entry."""
        if not tx.effects.empty and any(_is_mutated(tx, each) for each in gc.get_referents(self.value)):
            unsupported(ChangedDuringIteration("the container of an iterator from before this graph"))


def _is_mutated(tx: Translator, container: object) -> bool:
    """Whether the traced code has mutated a container, or the attributes of an object that has it as ``__dict__``."""
    known = tx.attempt.values.memo.get(identity(container), (None, None))[1]
    trackers = () if known is None else (known, known.payload)
    is_dict = type(container) is dict
    for tracker in tx.effects.written:
        if any(tracker is each for each in trackers) or is_dict and instance_dict(tracker.value) is container:
            return True
    return type(container) is dict and tx.effects.wrote_global(container)


class ExistingCount(ExistingIterator):
    """An ``itertools.count`` of integers, or the numbers of an ``enumerate``."""

    __slots__ = ("first",)

    def __init__(self, attempt: Attempt, value: Any, source: Source, number: int) -> None:
        super().__init__(value, source)
        self.first = LazyVariable(attempt, number, source.child("next_number"))

    def _take(self, tx: Translator) -> VariableTracker:
        return tx.binary("+", self.first.realize(), ConstantVariable(self.taken - 1)) if self.taken > 1 else self.first


class ExistingZip(ExistingIterator):
    """A ``zip``, or an ``enumerate``, which is a zip of its numbers and its iterator."""

    __slots__ = ("inner",)

    def __init__(self, value: Any, source: Source, inner: Sequence[ExistingIterator]) -> None:
        super().__init__(value, source)
        self.inner = inner

    def _take(self, tx: Translator) -> VariableTracker:
        items: list[VariableTracker] = []
        for each in self.inner:
            each.taken_by_outer += 1
            items.append(each.next_lazily(tx))
        if not items:
            raise Exhausted
        return TupleVariable(items)


def _opaque(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    return attempt.values.opaque(value, source, "a pre-existing iterator that can't be copied")


@wraps_type(*_CONTAINER_ITERATORS)
def _wrap_container_iterator(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    try:
        copied = copy.copy(value)
    except RuntimeError:  # the dict has changed its size
        return _opaque(attempt, value, source)
    if not operator.length_hint(value):  # behind the end of a list that has shrunk, where a copy would be at its end
        copied = iter(())
    source.check("type", type(value))
    for container in gc.get_referents(value):
        attempt.guards.iterated_objects.append((container, source.child("taken_from")))
    return ContainerIterator(attempt, value, source, copied)


@wraps_type(enumerate)
def _wrap_enumerate(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    iterator, number = value.__reduce__()[1]
    source.check("type", enumerate)
    inner = attempt.values.wrap(iterator, source.child("taken_from"))
    if not isinstance(inner, ExistingIterator):
        return _opaque(attempt, value, source)
    return ExistingZip(value, source, [ExistingCount(attempt, value, source, number), inner])


@wraps_type(zip)
def _wrap_zip(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    iterators, *strict = value.__reduce__()[1:]
    if strict:
        return _opaque(attempt, value, source)
    source.check("type", zip)
    wrapped = [each.realize() for each in wrap_items(attempt, iterators, source.child("taken_from"), "tuple_item")]
    inner = [each for each in wrapped if isinstance(each, ExistingIterator)]
    return ExistingZip(value, source, inner) if len(inner) == len(wrapped) else _opaque(attempt, value, source)


@wraps_type(itertools.count)
def _wrap_count(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    number = _C.next_number(value)
    if number is None:
        return _opaque(attempt, value, source)
    source.check("type", itertools.count)
    return ExistingCount(attempt, value, source, number)
