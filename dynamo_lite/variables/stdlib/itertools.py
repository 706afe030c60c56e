"""The module ``itertools``: most of its iterators are generators of `polyfills.itertools`, which a trace inlines.

To the program each is an object of the real class. One that nothing was taken of is created anew in generated code. One
that has begun can't be: where it is live across a graph break, the graph breaks before it is created, and CPython has
it. Nor is it a generator to the program where an exception leaves it: the graph breaks at that step.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.attributes import MISSING
from dynamo_lite.variables.core.base import (
    Args,
    CreatingCall,
    Kwargs,
    NotConstant,
    ObservedException,
    VariableTracker,
    refuse_arguments,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models, models_class_method, models_raw
from dynamo_lite.variables.polyfills import itertools as polyfills
from dynamo_lite.variables.python.containers.iterator import GeneratorVariable, IteratorVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable


class PolyfillIterator(IteratorVariable):
    """``make``: what creates the real one of these arguments; ``generator``: once it has begun."""

    __slots__ = ("kind", "make", "polyfill", "args", "kwargs", "generator")

    def __init__(self, tx: Translator, make: Any, polyfill: Any, args: Args, kwargs: Kwargs | None = None) -> None:
        self.source = None
        self.kind: type = make if isinstance(make, type) else itertools.chain
        self.make = make
        self.polyfill = polyfill
        self.args = args
        self.kwargs = kwargs or {}
        self.generator: GeneratorVariable | None = None
        tx.attempt.provenance.created(self)

    def python_type(self) -> type:
        return self.kind

    def describe(self) -> str:
        return f"an itertools.{self.kind.__name__} object"

    def next(self, tx: Translator) -> VariableTracker:
        if self.generator is None:
            made = tx.call(FunctionVariable(self.polyfill, None), self.args, self.kwargs).realize()
            assert isinstance(made, GeneratorVariable)
            self.generator, self.args, self.kwargs = made, [], {}
        if self.generator.running:
            unsupported(UnsupportedOperation("next(), by what it takes from,", self.describe()))
        try:
            return self.generator.next(tx)
        except ObservedException as observed:
            unsupported(UnsupportedOperation(f"{observed.error.describe()} in next()", self.describe()))

    def creating_call(self) -> CreatingCall | None:
        return None if self.generator is not None or self.kwargs else CreatingCall(self.make, (), self.args)

    def reconstruct(self, cg: Codegen) -> None:
        if self.generator is not None:
            raise NotConstant("an iterator that has begun")
        loads = [functools.partial(cg.load, each) for each in self.args]
        cg.call_named(self.make, loads, {name: functools.partial(cg.load, each) for name, each in self.kwargs.items()})


def _model_of(make: Any, polyfill: Callable[..., Any], *iterated: str) -> Callable[..., VariableTracker]:
    """``iterated``: the parameters that are taken ``iter()`` of at once."""
    signature = inspect.signature(polyfill)

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            refuse_arguments(f"itertools.{make.__name__}")
        for name in iterated:
            value = given.arguments.get(name, ())
            several = isinstance(value, tuple)
            given.arguments[name] = tuple(map(tx.iterate, value)) if several else tx.iterate(value)
        return PolyfillIterator(tx, make, polyfill, list(given.args), given.kwargs)

    return model


models_raw(itertools.chain, _model_of(itertools.chain, polyfills.chain))
for _make, _polyfill, *_iterated in (
    (itertools.accumulate, polyfills.accumulate, "iterable"),
    (itertools.compress, polyfills.compress, "data", "selectors"),
    (itertools.cycle, polyfills.cycle, "iterable"),
    (itertools.dropwhile, polyfills.dropwhile, "iterable"),
    (itertools.filterfalse, polyfills.filterfalse, "iterable"),
    (itertools.pairwise, polyfills.pairwise, "iterable"),
    (itertools.starmap, polyfills.starmap, "iterable"),
    (itertools.takewhile, polyfills.takewhile, "iterable"),
    (itertools.zip_longest, polyfills.zip_longest, "iterables"),
):
    models_raw(_make, _model_of(_make, _polyfill, *_iterated))


@models_class_method(itertools.chain, "from_iterable")
def _from_iterable(tx: Translator, cls: VariableTracker, iterables: VariableTracker) -> VariableTracker:
    return PolyfillIterator(tx, itertools.chain.from_iterable, polyfills.from_iterable, [tx.iterate(iterables)])


# -- those that take numbers, which CPython's own checks ---------------------------------------------------------------


def _is_index(tx: Translator, value: VariableTracker) -> bool:
    return tx.lookup(value.python_type(), "__index__") is not MISSING


@models(itertools.islice)
def _islice(tx: Translator, iterable: VariableTracker, *limits: VariableTracker) -> VariableTracker:
    if not 1 <= len(limits) <= 3 or not all(each.is_constant() or _is_index(tx, each) for each in limits):
        refuse_arguments("itertools.islice")
    values = [each.as_constant() if each.is_constant() else tx.index_value(each) for each in limits]
    tx.fold(itertools.islice, ((), *values))
    start, stop, step = (None, *values, None) if len(values) == 1 else (*values, None, None)[:3]
    numbers = [ConstantVariable(each) for each in (start or 0, stop, step or 1)]
    return PolyfillIterator(tx, itertools.islice, polyfills.islice, [tx.iterate(iterable), *numbers])


@models(itertools.count)
def _count(
    tx: Translator, start: VariableTracker | None = None, step: VariableTracker | None = None
) -> VariableTracker:
    for each in (start, step):
        if each is not None and not isinstance(each, (TensorVariable, UserObjectVariable)):
            tx.fold(itertools.count, (tx.python_value(each),))
    given = [start or ConstantVariable(0), step or ConstantVariable(1)]
    return PolyfillIterator(tx, itertools.count, polyfills.count, given)


@models(itertools.repeat)
def _repeat(tx: Translator, object: VariableTracker, times: VariableTracker | None = None) -> VariableTracker:
    if times is None:
        return PolyfillIterator(tx, itertools.repeat, polyfills.repeat, [object])
    left = times.as_constant() if times.is_constant() else tx.index_value(times)
    tx.fold(itertools.repeat, (None, left))
    return PolyfillIterator(tx, itertools.repeat, polyfills.repeat, [object, ConstantVariable(left)])


if sys.version_info >= (3, 12):

    @models(itertools.batched)
    def _batched(
        tx: Translator, iterable: VariableTracker, n: VariableTracker, **named: VariableTracker
    ) -> VariableTracker:
        values = {name: tx.python_value(value) for name, value in named.items()}
        size = tx.python_value(n)
        tx.fold(itertools.batched, ((), size), values)
        numbers = {name: ConstantVariable(value) for name, value in values.items()}
        given = [tx.iterate(iterable), ConstantVariable(size)]
        return PolyfillIterator(tx, itertools.batched, polyfills.batched, given, numbers)
