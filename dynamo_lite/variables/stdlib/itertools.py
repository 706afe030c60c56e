"""The module ``itertools``: most of its iterators are traced as generators of `polyfills.itertools`, which are inlined.

The program sees objects of the real classes. An iterator that has yielded nothing is recreated in generated code.
One that has started can't be: where it is live across a graph break, the graph breaks before its creation, so that
CPython creates it. An exception ends a generator, and not the real iterators: so the graph breaks where one raises.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.plan.rows import Value
from dynamo_lite.variables.core.base import (
    Args,
    CreatingCall,
    Exhausted,
    Kwargs,
    NotConstant,
    ObservedException,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.c_arguments import refuse_arguments
from dynamo_lite.variables.core.class_lookup import MISSING
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models, models_class_method, models_raw
from dynamo_lite.variables.polyfills import itertools as polyfills
from dynamo_lite.variables.polyfills.recreation import advance_iterator
from dynamo_lite.variables.python.containers.iterators import GeneratorVariable, IteratorVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable
from dynamo_lite.variables.python.functions.function import FunctionVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable


class PolyfillIterator(IteratorVariable):
    """An iterator that runs a polyfill. ``create``: the callable that creates the real iterator from the arguments;
    ``generator``: the polyfill's generator, None until the first ``next``."""

    __slots__ = ("kind", "create", "polyfill", "args", "kwargs", "generator")

    def __init__(self, tx: Translator, create: Any, polyfill: Any, args: Args, kwargs: Kwargs | None = None) -> None:
        self.source = None
        self.kind: type = create if isinstance(create, type) else itertools.chain
        self.create = create
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
            generator = tx.call(FunctionVariable(self.polyfill, None), self.args, self.kwargs).realize()
            assert isinstance(generator, GeneratorVariable)
            self.generator, self.args, self.kwargs = generator, [], {}
        if self.generator.running:
            unsupported(UnsupportedOperation("a next() inside of next()", self.describe()))
        try:
            return self.generator.next(tx)
        except ObservedException as observed:
            unsupported(UnsupportedOperation(f"next(), which raises {observed.error.describe()},", self.describe()))

    def creating_call(self) -> CreatingCall | None:
        return None if self.generator is not None or self.kwargs else CreatingCall(self.create, (), self.args)

    def construct(self, plan: Planner) -> Value:
        if self.generator is not None:
            raise NotConstant("an iterator that has started")
        return plan.call(self.create, *self.args, **self.kwargs)


def _model_of(create: Any, polyfill: Callable[..., Any], *iterated: str) -> Callable[..., VariableTracker]:
    """A model of a class of iterators. ``iterated``: the parameters that the class calls ``iter()`` on at creation."""
    signature = inspect.signature(polyfill)

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            refuse_arguments(f"itertools.{create.__name__}")
        for name in iterated:
            value = given.arguments.get(name, ())
            is_variadic = isinstance(value, tuple)
            given.arguments[name] = tuple(map(tx.iterate, value)) if is_variadic else tx.iterate(value)
        return PolyfillIterator(tx, create, polyfill, list(given.args), given.kwargs)

    return model


for _create, _polyfill, *_iterated in (
    (itertools.chain, polyfills.chain),
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
    models_raw(_create, _model_of(_create, _polyfill, *_iterated))


@models_class_method(itertools.chain, "from_iterable")
def _from_iterable(tx: Translator, cls: VariableTracker, iterables: VariableTracker) -> VariableTracker:
    return PolyfillIterator(tx, itertools.chain.from_iterable, polyfills.from_iterable, [tx.iterate(iterables)])


# -- iterators with numbers as arguments, which CPython checks --------------------------------------------------------


@models(itertools.islice)
def _islice(tx: Translator, iterable: VariableTracker, *limits: VariableTracker) -> VariableTracker:
    if not 1 <= len(limits) <= 3 or not all(each.is_constant() or tx.is_index(each) for each in limits):
        refuse_arguments("itertools.islice")
    values = [each.as_constant() if each.is_constant() else tx.index_value(each) for each in limits]
    tx.fold(itertools.islice, ((), *values))
    given = slice(*values)
    numbers = [ConstantVariable(each) for each in (given.start or 0, given.stop, given.step or 1)]
    return PolyfillIterator(tx, itertools.islice, polyfills.islice, [tx.iterate(iterable), *numbers])


def _is_number(tx: Translator, value: VariableTracker) -> bool:
    """``PyNumber_Check``."""
    return any(tx.lookup(value.python_type(), name) is not MISSING for name in ("__index__", "__int__", "__float__"))


@models(itertools.count)
def _count(
    tx: Translator, start: VariableTracker | None = None, step: VariableTracker | None = None
) -> VariableTracker:
    for each in (start, step):
        if each is not None and not isinstance(each, (TensorVariable, UserObjectVariable)):
            tx.fold(itertools.count, (tx.python_value(each),))
        elif isinstance(each, UserObjectVariable) and each.payload is None and not _is_number(tx, each):
            tx.raise_error(TypeError, "a number is required")
    given = [start or ConstantVariable(0), step or ConstantVariable(1)]
    return PolyfillIterator(tx, itertools.count, polyfills.count, given)


@models(itertools.repeat)
def _repeat(tx: Translator, object: VariableTracker, times: VariableTracker | None = None) -> VariableTracker:
    if times is None:
        return PolyfillIterator(tx, itertools.repeat, polyfills.repeat, [object])
    count = tx.index_value(times)
    tx.fold(itertools.repeat, (None, count))
    return PolyfillIterator(tx, itertools.repeat, polyfills.repeat, [object, ConstantVariable(count)])


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


# -- iterators that share one iterator -------------------------------------------------------------------------------


class SharingIterator(PolyfillIterator):
    """An iterator that shares its iterator with others, so that no call can recreate it alone."""

    __slots__ = ()

    def creating_call(self) -> None:
        return None

    def construct(self, plan: Planner) -> Value:
        raise NotConstant(self.describe())


_TEE: Any = type(itertools.tee(())[0])
_GROUP: Any = type(next(itertools.groupby([0]))[1])


@models(itertools.tee)
def _tee(tx: Translator, iterable: VariableTracker, n: VariableTracker | None = None) -> VariableTracker:
    iterator, count = tx.iterate(iterable), 2 if n is None else tx.index_value(n)
    if iterator.python_type() is _TEE or count < 0:  # an iterator of `tee` would be copied
        refuse_arguments("itertools.tee")
    link = ListVariable([])
    return TupleVariable([SharingIterator(tx, _TEE, polyfills.tee, [iterator, link]) for _ in range(count)])


class GroupBy(PolyfillIterator):
    """``itertools.groupby``, whose groups share its iterator."""

    __slots__ = ()

    def next(self, tx: Translator) -> VariableTracker:
        pair = super().next(tx)
        assert isinstance(pair, TupleVariable) and isinstance(pair.items[1], GeneratorVariable)
        group = SharingIterator(tx, _GROUP, None, [])
        group.generator = pair.items[1]
        return TupleVariable([pair.items[0], group])


@models(itertools.groupby)
def _groupby(tx: Translator, iterable: VariableTracker, key: VariableTracker | None = None) -> VariableTracker:
    given = [tx.iterate(iterable), key or ConstantVariable(None)]
    return GroupBy(tx, itertools.groupby, polyfills.groupby, given)


# -- combinatoric iterators --------------------------------------------------------------------------------------------


class CombinationsVariable(IteratorVariable):
    """``product``, ``permutations`` or ``combinations``. ``named``: the arguments other than the iterables;
    ``indices``: CPython's own iterator, over the items' indices; ``count``: how many tuples were taken."""

    __slots__ = ("cls", "pools", "named", "indices", "count")

    def __init__(self, cls: Any, pools: list[list[VariableTracker]], named: dict[str, object]) -> None:
        self.source = None
        self.cls = cls
        self.pools = pools
        self.named = named
        self.count = 0
        self.indices = cls(*[range(len(pool)) for pool in pools], **named)

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"an itertools.{self.cls.__name__} object"

    def next(self, tx: Translator) -> VariableTracker:
        indices = next(self.indices, None)
        if indices is None:
            raise Exhausted
        self.count += 1
        pools = itertools.cycle(self.pools)
        return TupleVariable([pool[index] for pool, index in zip(pools, indices)])

    def construct(self, plan: Planner) -> Value:
        named = {name: plan.constant(value) for name, value in self.named.items()}
        created = plan.call(self.cls, *map(plan.tuple_of, self.pools), **named)
        return plan.call(advance_iterator, created, plan.constant(self.count))


def _create_combinations(
    tx: Translator, kind: Any, iterables: Iterable[VariableTracker], named: Kwargs
) -> VariableTracker:
    values = {name: tx.python_value(value) for name, value in named.items()}
    pools = [each.elements(tx) for each in iterables]
    tx.fold(kind, [()] * len(pools), values)
    return CombinationsVariable(kind, pools, values)


@models(itertools.product)
def _product(tx: Translator, *iterables: VariableTracker, **named: VariableTracker) -> VariableTracker:
    return _create_combinations(tx, itertools.product, iterables, named)


def _model_combinations(kind: object) -> None:
    @models(kind)
    def model(tx: Translator, iterable: VariableTracker, r: VariableTracker | None = None) -> VariableTracker:
        return _create_combinations(tx, kind, [iterable], {} if r is None else {"r": r})


for _each in (itertools.permutations, itertools.combinations, itertools.combinations_with_replacement):
    _model_combinations(_each)
