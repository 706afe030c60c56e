"""The module ``itertools``: each takes from its iterators when it is asked, and no more than CPython's does.

Each knows how to be made in generated code as it stands: what it would give next it gives there.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.attributes import MISSING
from dynamo_lite.variables.core.base import (
    Exhausted,
    ObservedException,
    Parts,
    VariableTracker,
    refuse_arguments,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models, models_class_method
from dynamo_lite.variables.polyfills.carried import advanced
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.containers.iterator import FilterVariable, IteratorVariable
from dynamo_lite.variables.python.containers.sequence import SequenceIterator, TupleVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable


class ItertoolVariable(IteratorVariable):
    """Base. ``kind``: the real class."""

    __slots__ = ("under_way",)
    kind: type

    def next(self, tx: Any) -> VariableTracker:
        if getattr(self, "under_way", False):
            unsupported(UnsupportedOperation("next(), by what it takes from,", self.describe()))
        self.under_way = True
        try:
            return self.take(tx)
        finally:
            self.under_way = False

    def take(self, tx: Any) -> VariableTracker:
        """What `next` does."""
        raise NotImplementedError

    def python_type(self) -> type:
        return self.kind

    def describe(self) -> str:
        return f"an itertools.{self.kind.__name__} object"


def nothing(cg: Any) -> Callable[[], None]:
    """Loads an iterator that is at its end."""
    return lambda: cg.call(iter, [lambda: cg.build("TUPLE", 0)])


def loader(cg: Any, iterator: VariableTracker | None) -> Callable[[], None]:
    """Loads what is left to take from; None: nothing."""
    return nothing(cg) if iterator is None else lambda: cg.load(iterator)


# -- one after the other -----------------------------------------------------------------------------------------------


class ChainVariable(ItertoolVariable):
    """``source``: an iterator over what is still to come; ``active``: the iterator that is gone through now."""

    __slots__ = ("source_", "active")
    kind = itertools.chain

    def __init__(self, source: VariableTracker) -> None:
        self.source = None
        self.source_: VariableTracker | None = source
        self.active: VariableTracker | None = None

    def take(self, tx: Any) -> VariableTracker:
        while self.source_ is not None:
            if self.active is None:
                try:
                    self.active = tx.iterate(self.source_.next(tx))
                except (Exhausted, ObservedException):
                    self.source_ = None
                    raise
            try:
                return self.active.next(tx)
            except Exhausted:
                self.active = None
        raise Exhausted

    def ingredients(self) -> Parts | None:
        source = self.source_
        if self.active is not None or not isinstance(source, SequenceIterator):
            return None
        if source.of is None or source.at or not isinstance(source.of, TupleVariable):
            return None
        return Parts(self.kind, (), source.of.items)

    def reconstruct(self, cg: Any) -> None:
        args = [lambda: cg.load_tuple([] if self.active is None else [self.active]), loader(cg, self.source_)]
        cg.call(_chain, args)


def _chain(active: tuple[Any, ...], source: Any) -> Any:
    return itertools.chain.from_iterable(itertools.chain(active, source) if active else source)


@models(itertools.chain)
def _chain_model(tx: Any, *iterables: VariableTracker) -> VariableTracker:
    return ChainVariable(TupleVariable(list(iterables)).iterate(tx))


@models_class_method(itertools.chain, "from_iterable")
def _from_iterable(tx: Any, cls: ClassVariable, iterables: VariableTracker) -> VariableTracker:
    return ChainVariable(tx.iterate(iterables))


class CycleVariable(ItertoolVariable):
    __slots__ = ("of", "saved", "at")
    kind = itertools.cycle

    def __init__(self, of: VariableTracker) -> None:
        self.source = None
        self.of: VariableTracker | None = of
        self.saved: list[VariableTracker] = []
        self.at = 0

    def take(self, tx: Any) -> VariableTracker:
        if self.of is not None:
            try:
                item = self.of.next(tx)
            except Exhausted:
                self.of = None
            else:
                self.saved.append(item)
                return item
        if not self.saved:
            raise Exhausted
        item = self.saved[self.at]
        self.at = (self.at + 1) % len(self.saved)
        return item

    def reconstruct(self, cg: Any) -> None:
        saved = self.saved[self.at :] + self.saved[: self.at]
        cg.call(_cycle, [lambda: cg.load_tuple(saved), loader(cg, self.of), lambda: cg.load_const(self.of is None)])


def _cycle(saved: tuple[Any, ...], rest: Any, over: bool) -> Any:
    if over:
        return itertools.cycle(saved)
    made = itertools.cycle(itertools.chain(saved, rest))
    return advanced(made, len(saved))


@models(itertools.cycle)
def _cycle_model(tx: Any, iterable: VariableTracker) -> VariableTracker:
    return CycleVariable(tx.iterate(iterable))


class IsliceVariable(ItertoolVariable):
    """``taken``: how many items it took; ``at``: the index of the next one to give."""

    __slots__ = ("of", "at", "stop", "step", "taken")
    kind = itertools.islice

    def __init__(self, of: VariableTracker, start: int, stop: int | None, step: int) -> None:
        self.source = None
        self.of: VariableTracker | None = of
        self.at = start
        self.stop = stop
        self.step = step
        self.taken = 0

    def take(self, tx: Any) -> VariableTracker:
        if self.of is None:
            raise Exhausted
        try:
            while self.taken < self.at:
                self.of.next(tx)
                self.taken += 1
            if self.stop is not None and self.taken >= self.stop:
                raise Exhausted
            item = self.of.next(tx)
        except (Exhausted, ObservedException):
            self.of = None
            raise
        self.taken += 1
        self.at += self.step
        if self.stop is not None and self.at > self.stop:
            self.at = self.stop
        return item

    def reconstruct(self, cg: Any) -> None:
        stop = None if self.stop is None else max(self.stop - self.taken, 0)
        limits = (self.at - self.taken, stop, self.step)
        loads = [lambda each=each: cg.load_const(each) for each in limits]
        cg.call(itertools.islice, [loader(cg, self.of), *loads])


def _is_index(tx: Any, value: VariableTracker) -> bool:
    return tx.lookup(value.python_type(), "__index__") is not MISSING


@models(itertools.islice)
def _islice(tx: Any, iterable: VariableTracker, *limits: VariableTracker) -> VariableTracker:
    if not 1 <= len(limits) <= 3 or not all(each.is_constant() or _is_index(tx, each) for each in limits):
        refuse_arguments("itertools.islice")
    values = [each.as_constant() if each.is_constant() else tx.index_value(each) for each in limits]
    tx.fold(itertools.islice, ((), *values))
    start, stop, step = (None, *values, None) if len(values) == 1 else (*values, None, None)[:3]
    return IsliceVariable(tx.iterate(iterable), start or 0, stop, step or 1)


class PairwiseVariable(ItertoolVariable):
    __slots__ = ("of", "before")
    kind = itertools.pairwise

    def __init__(self, of: VariableTracker) -> None:
        self.source = None
        self.of: VariableTracker | None = of
        self.before: VariableTracker | None = None

    def take(self, tx: Any) -> VariableTracker:
        if self.of is None:
            raise Exhausted
        try:
            if self.before is None:
                self.before = self.of.next(tx)
            item = self.of.next(tx)
        except (Exhausted, ObservedException):
            self.of = self.before = None
            raise
        pair = TupleVariable([self.before, item])
        self.before = item
        return pair

    def reconstruct(self, cg: Any) -> None:
        before = [] if self.before is None else [self.before]
        cg.call(_pairwise, [lambda: cg.load_tuple(before), loader(cg, self.of)])


def _pairwise(before: tuple[Any, ...], rest: Any) -> Any:
    return itertools.pairwise(itertools.chain(before, rest))


@models(itertools.pairwise)
def _pairwise_model(tx: Any, iterable: VariableTracker) -> VariableTracker:
    return PairwiseVariable(tx.iterate(iterable))


class BatchedVariable(ItertoolVariable):
    __slots__ = ("of", "size", "strict")
    kind = getattr(itertools, "batched", object)

    def __init__(self, of: VariableTracker, size: int, strict: bool) -> None:
        self.source = None
        self.of: VariableTracker | None = of
        self.size = size
        self.strict = strict

    def take(self, tx: Any) -> VariableTracker:
        items: list[VariableTracker] = []
        while self.of is not None and len(items) < self.size:
            try:
                items.append(self.of.next(tx))
            except Exhausted:
                self.of = None
        if not items:
            raise Exhausted
        if self.strict and len(items) < self.size:
            tx.raise_error(ValueError, "batched(): incomplete batch")
        return TupleVariable(items)

    def reconstruct(self, cg: Any) -> None:
        named = {"strict": lambda: cg.load_const(True)} if self.strict else {}
        cg.call_named(self.kind, [loader(cg, self.of), lambda: cg.load_const(self.size)], named)


if sys.version_info >= (3, 12):

    @models(itertools.batched)
    def _batched(tx: Any, iterable: VariableTracker, n: VariableTracker, **named: VariableTracker) -> VariableTracker:
        values = {name: tx.python_value(value) for name, value in named.items()}
        size = tx.python_value(n)
        tx.fold(itertools.batched, ((), size), values)
        return BatchedVariable(tx.iterate(iterable), size, values.get("strict", False))


# -- without end -------------------------------------------------------------------------------------------------------


class CountVariable(ItertoolVariable):
    __slots__ = ("at", "step")
    kind = itertools.count

    def __init__(self, at: VariableTracker, step: VariableTracker) -> None:
        self.source = None
        self.at = at
        self.step = step

    def take(self, tx: Any) -> VariableTracker:
        found = self.at
        self.at = tx.binary("+", self.at, self.step).realize()
        return found

    def reconstruct(self, cg: Any) -> None:
        cg.call(itertools.count, [lambda: cg.load(self.at), lambda: cg.load(self.step)])


@models(itertools.count)
def _count(tx: Any, start: VariableTracker | None = None, step: VariableTracker | None = None) -> VariableTracker:
    for each in (start, step):
        if each is not None and not isinstance(each, (TensorVariable, UserObjectVariable)):
            tx.fold(itertools.count, (tx.python_value(each),))
    return CountVariable(start or ConstantVariable(0), step or ConstantVariable(1))


class RepeatVariable(ItertoolVariable):
    """``left``: how many times yet, None: for ever."""

    __slots__ = ("item", "left")
    kind = itertools.repeat

    def __init__(self, item: VariableTracker, left: int | None) -> None:
        self.source = None
        self.item = item
        self.left = left

    def take(self, tx: Any) -> VariableTracker:
        if self.left is not None:
            if self.left <= 0:
                raise Exhausted
            self.left -= 1
        return self.item

    def method___length_hint__(self, tx: Any) -> VariableTracker:
        if self.left is None:
            tx.raise_error(TypeError, "len() of unsized object")
        return ConstantVariable(self.left)

    def reconstruct(self, cg: Any) -> None:
        left = [] if self.left is None else [lambda: cg.load_const(self.left)]
        cg.call(itertools.repeat, [lambda: cg.load(self.item), *left])


@models(itertools.repeat)
def _repeat(tx: Any, object: VariableTracker, times: VariableTracker | None = None) -> VariableTracker:
    if times is None:
        return RepeatVariable(object, None)
    left = times.as_constant() if times.is_constant() else tx.index_value(times)
    tx.fold(itertools.repeat, (None, left))
    return RepeatVariable(object, max(left, 0))


# -- with a function ---------------------------------------------------------------------------------------------------


class AccumulateVariable(ItertoolVariable):
    """``total``: what it gave last, None at the start; ``initial``: what is given before anything is taken."""

    __slots__ = ("of", "function", "initial", "total")
    kind = itertools.accumulate

    def __init__(self, of: VariableTracker, function: VariableTracker | None, initial: VariableTracker | None) -> None:
        self.source = None
        self.of = of
        self.function = function
        self.initial = initial
        self.total: VariableTracker | None = None

    def take(self, tx: Any) -> VariableTracker:
        if self.initial is not None:
            self.total, self.initial = self.initial, None
            return self.total
        item = self.of.next(tx)
        if self.total is None:
            self.total = item
        elif self.function is None:
            self.total = tx.binary("+", self.total, item).realize()
        else:
            self.total = tx.call(self.function, [self.total, item], {}).realize()
        return self.total

    def reconstruct(self, cg: Any) -> None:
        before = [each for each in (self.initial, self.total) if each is not None]
        function = self.function or ConstantVariable(None)
        loads = [lambda: cg.load(self.of), lambda: cg.load(function), lambda: cg.load_tuple(before)]
        cg.call(_accumulate, [*loads, lambda: cg.load_const(self.initial is None)])


def _accumulate(rest: Any, function: Any, before: tuple[Any, ...], given: bool) -> Any:
    return advanced(itertools.accumulate(itertools.chain(before, rest), function), len(before) if given else 0)


@models(itertools.accumulate)
def _accumulate_model(
    tx: Any,
    iterable: VariableTracker,
    func: VariableTracker | None = None,
    *,
    initial: VariableTracker | None = None,
) -> VariableTracker:
    function = None if func is None or tx.is_none(func) else func
    start = None if initial is None or tx.is_none(initial) else initial
    return AccumulateVariable(tx.iterate(iterable), function, start)


class StarmapVariable(ItertoolVariable):
    __slots__ = ("function", "of")
    kind = itertools.starmap

    def __init__(self, function: VariableTracker, of: VariableTracker) -> None:
        self.source = None
        self.function = function
        self.of = of

    def take(self, tx: Any) -> VariableTracker:
        args = self.of.next(tx).elements(tx)
        return tx.call(self.function, args, {}).realize()

    def reconstruct(self, cg: Any) -> None:
        cg.call(self.kind, [lambda: cg.load(self.function), lambda: cg.load(self.of)])


class TakewhileVariable(StarmapVariable):
    __slots__ = ("over",)
    kind = itertools.takewhile

    def __init__(self, function: VariableTracker, of: VariableTracker) -> None:
        super().__init__(function, of)
        self.over = False

    def take(self, tx: Any) -> VariableTracker:
        if self.over:
            raise Exhausted
        item = self.of.next(tx)
        if tx.truth(tx.call(self.function, [item], {}).realize()):
            return item
        self.over = True
        raise Exhausted

    def reconstruct(self, cg: Any) -> None:
        cg.call(self.kind, [lambda: cg.load(self.function), loader(cg, None if self.over else self.of)])


class DropwhileVariable(StarmapVariable):
    __slots__ = ("dropping",)
    kind = itertools.dropwhile

    def __init__(self, function: VariableTracker, of: VariableTracker) -> None:
        super().__init__(function, of)
        self.dropping = True

    def take(self, tx: Any) -> VariableTracker:
        while True:
            item = self.of.next(tx)
            if not self.dropping or not tx.truth(tx.call(self.function, [item], {}).realize()):
                self.dropping = False
                return item

    def reconstruct(self, cg: Any) -> None:
        function = (lambda: cg.load(self.function)) if self.dropping else (lambda: cg.load_const(_never))
        cg.call(self.kind, [function, lambda: cg.load(self.of)])


def _never(item: Any) -> bool:
    return False


class FilterfalseVariable(FilterVariable):
    __slots__ = ()
    kind = itertools.filterfalse
    keeps = False


def _with_function(kind: Any) -> None:
    @models(kind.kind)
    def model(tx: Any, function: VariableTracker, iterable: VariableTracker) -> VariableTracker:
        return kind(function, tx.iterate(iterable))


for _kind in (StarmapVariable, TakewhileVariable, DropwhileVariable, FilterfalseVariable):
    _with_function(_kind)
