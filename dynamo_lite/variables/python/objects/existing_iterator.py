"""Iterators of CPython's own that were found in the program: a loop that a graph break left, above all.

What they will give next is read, and guarded, counted from where they stand: so one entry serves every turn of a loop.
What the trace takes from them is taken in generated code too, before all other effects: what they go over is then as it
was when it was read.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import (
    Exhausted,
    IteratorVariable,
    LazyVariable,
    VariableTracker,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.python.containers.sequence import TupleVariable, wrap_items

from .user_object import instance_dict

_OF_ITEMS: type = type(iter({}.items()))
_ITERATED: tuple[Any, ...] = ([], (), range(0), {}, {}.values(), set(), "", "\u20ac", b"", reversed([]))
_KINDS: tuple[type, ...] = (*dict.fromkeys(map(type, map(iter, _ITERATED))), _OF_ITEMS)
_FOUND = frozenset({*_KINDS, enumerate, zip})


class ExistingIterator(IteratorVariable):
    """Base. ``taken``: how often it was asked for an item; ``by_another``: how often by an iterator that takes from
    it."""

    __slots__ = ("value", "taken", "by_another")
    source: Source
    is_replayed_first = True

    def __init__(self, value: Any, source: Source) -> None:
        self.source = source
        self.value = value
        self.taken = 0
        self.by_another = 0

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"a {type(self.value).__name__}"

    def next(self, tx: Translator) -> VariableTracker:
        return self.next_lazily(tx).realize()

    def next_lazily(self, tx: Translator) -> VariableTracker:
        tx.effects.mutate(self)
        self.taken += 1
        return self._take(tx)

    def _take(self, tx: Translator) -> VariableTracker:
        raise NotImplementedError

    def replay(self, cg: Codegen) -> None:
        count = self.taken - self.by_another
        if count:
            cg.call(_take_from, [lambda: cg.load_source(self.source), lambda: cg.load_const(count)])
            cg.pop_top()


def _take_from(iterator: Iterator[Any], count: int) -> None:
    for _ in range(count):
        next(iterator, None)


class ContainerIterator(ExistingIterator):
    """Of a container, text or range. ``ahead``: a copy of the iterator, which is ahead of it by what was taken."""

    __slots__ = ("attempt", "ahead", "given", "over")

    def __init__(self, attempt: Attempt, value: Any, source: Source, ahead: Iterator[Any]) -> None:
        super().__init__(value, source)
        self.attempt = attempt
        self.ahead = ahead
        self.given = 0
        self.over = False

    def _take(self, tx: Translator) -> VariableTracker:
        if self.over:
            raise Exhausted
        self._check_unchanged(tx)
        at = self.given
        try:
            item = next(self.ahead)
        except StopIteration:
            self.over = True
            self.source.child("next_item", at).check("unbound")
            raise Exhausted from None
        self.given += 1
        first = self.source.child("next_item", at).expect()
        if type(self.value) is not _OF_ITEMS:
            return LazyVariable(self.attempt, item, first)
        second = self.source.child("next_value", at).expect()
        return TupleVariable([LazyVariable(self.attempt, item[0], first), LazyVariable(self.attempt, item[1], second)])

    def _check_unchanged(self, tx: Translator) -> None:
        """What it goes over was read as it was before the trace."""
        if not tx.effects.empty and any(_was_written(tx, each) for each in gc.get_referents(self.value)):
            unsupported(UnsupportedOperation("next(), after what it goes over was changed,", self.describe()))


def _was_written(tx: Translator, container: Any) -> bool:
    """Whether the trace wrote into a container, or gave attributes to what has it as its ``__dict__``."""
    known = tx.attempt.values.memo.get(id(container), (None, None))[1]
    own = (known, getattr(known, "payload", None))
    for tracker in tx.effects.written:
        if any(tracker is each for each in own):
            return True
        if type(container) is dict and not isinstance(tracker, ExistingIterator):
            value = getattr(tracker, "value", None)
            if tracker.is_tensor or (value is not None and instance_dict(value) is container):
                return True
    return tx.effects.wrote_global(container)


class ExistingEnumerate(ExistingIterator):
    __slots__ = ("of", "attempt", "count")

    def __init__(self, attempt: Attempt, value: Any, source: Source, of: ExistingIterator, count: int) -> None:
        super().__init__(value, source)
        self.attempt = attempt
        self.of = of
        self.count = count

    def _take(self, tx: Translator) -> VariableTracker:
        at = self.taken - 1
        self.of.by_another += 1
        item = self.of.next_lazily(tx)
        number: VariableTracker = LazyVariable(self.attempt, self.count, self.source.child("next_number"))
        if at:
            number = ConstantVariable(number.realize().as_constant() + at)
        return TupleVariable([number, item])


class ExistingZip(ExistingIterator):
    __slots__ = ("of",)

    def __init__(self, value: Any, source: Source, of: list[ExistingIterator]) -> None:
        super().__init__(value, source)
        self.of = of

    def _take(self, tx: Translator) -> VariableTracker:
        items: list[VariableTracker] = []
        for each in self.of:
            each.by_another += 1
            items.append(each.next_lazily(tx))
        if not items:
            raise Exhausted
        return TupleVariable(items)


def _opaque(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    return attempt.values.opaque(value, source, "an iterator that is under way")


@wraps_type(*_KINDS)
def _wrap_container_iterator(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    try:
        ahead = copy.copy(value)
    except RuntimeError:  # of a dict that changed
        return _opaque(attempt, value, source)
    source.check("type", type(value))
    for container in gc.get_referents(value):
        attempt.guards.iterated_objects.append((container, source.child("taken_from")))
    return ContainerIterator(attempt, value, source, ahead)


@wraps_type(enumerate)
def _wrap_enumerate(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    inner, count = value.__reduce__()[1]
    if type(inner) not in _FOUND:
        return _opaque(attempt, value, source)
    source.check("type", enumerate)
    of = attempt.values.wrap(inner, source.child("taken_from"))
    if not isinstance(of, ExistingIterator):
        return _opaque(attempt, value, source)
    return ExistingEnumerate(attempt, value, source, of, count)


@wraps_type(zip)
def _wrap_zip(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    inner, *strict = value.__reduce__()[1:]
    if strict or any(type(each) not in _FOUND for each in inner):
        return _opaque(attempt, value, source)
    source.check("type", zip)
    of = [each.realize() for each in wrap_items(attempt, inner, source.child("taken_from"), "tuple_item")]
    found = [each for each in of if isinstance(each, ExistingIterator)]
    return ExistingZip(value, source, found) if len(found) == len(of) else _opaque(attempt, value, source)
