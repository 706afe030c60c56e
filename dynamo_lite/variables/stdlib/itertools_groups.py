"""The module ``itertools``: ``tee``, ``groupby`` and combinatoric iterators.

These are no generators of polyfills: the iterators of ``tee`` and the groups of ``groupby`` share state, and those of
``tee`` can be copied. ``product``, ``permutations`` and ``combinations`` are CPython's, over the items' indices.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.base import (
    Args,
    Exhausted,
    Kwargs,
    NotConstant,
    VariableTracker,
    refuse_arguments,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Load, Translator
from dynamo_lite.variables.core.registry import models, models_raw
from dynamo_lite.variables.polyfills.carried import advance_iterator
from dynamo_lite.variables.python.containers.iterator import IteratorVariable
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable


class ItertoolVariable(IteratorVariable):
    """``kind``: the real class."""

    __slots__ = ("is_running",)
    kind: type

    def next(self, tx: Translator) -> VariableTracker:
        if getattr(self, "is_running", False):
            unsupported(UnsupportedOperation("a next() inside of next()", self.describe()))
        self.is_running = True
        try:
            return self.next_item(tx)
        finally:
            self.is_running = False

    def next_item(self, tx: Translator) -> VariableTracker:
        """The body of `next`, which does not run inside of itself."""
        raise NotImplementedError

    def python_type(self) -> type:
        return self.kind

    def describe(self) -> str:
        return f"an itertools.{self.kind.__name__} object"


# -- tee ---------------------------------------------------------------------------------------------------------------

_TEE: type = type(itertools.tee(())[0])
_GROUPER: type = type(next(itertools.groupby("a"))[1])


class TeeBuffer(VariableTracker):
    """The shared state of a ``tee``: its iterator, and the items that were taken from it."""

    __slots__ = ("iterator", "items")

    def __init__(self, iterator: VariableTracker) -> None:
        self.source = None
        self.iterator = iterator
        self.items: list[VariableTracker] = []

    def python_type(self) -> type:
        return _TEE

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(_tee, [lambda: cg.load_tuple(self.items), lambda: cg.load(self.iterator)])


def _tee(items: tuple[Any, ...], rest: Any) -> Any:
    return itertools.tee(itertools.chain(items, rest), 1)[0]


class TeeVariable(ItertoolVariable):
    """One of a ``tee``'s iterators. ``at``: how many items it has yielded."""

    __slots__ = ("buffer", "at")
    kind = _TEE

    def __init__(self, buffer: TeeBuffer, at: int = 0) -> None:
        self.source = None
        self.buffer = buffer
        self.at = at

    def next_item(self, tx: Translator) -> VariableTracker:
        if self.at == len(self.buffer.items):
            self.buffer.items.append(self.buffer.iterator.next(tx))
        self.at += 1
        return self.buffer.items[self.at - 1]

    def method___copy__(self, tx: Translator) -> VariableTracker:
        return TeeVariable(self.buffer, self.at)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(_tee_at, [lambda: cg.load(self.buffer), lambda: cg.load_const(self.at)])


def _tee_at(start: Any, at: int) -> Any:
    return advance_iterator(start.__copy__(), at)


@models(itertools.tee)
def _tee_model(tx: Translator, iterable: VariableTracker, n: VariableTracker | None = None) -> VariableTracker:
    count = 2 if n is None else tx.python_value(n)
    tx.fold(itertools.tee, ((), count))
    if count == 0:
        return TupleVariable([])
    iterator = tx.iterate(iterable)
    if isinstance(iterator, UserObjectVariable):
        unsupported(UnsupportedOperation("itertools.tee()", iterator.describe()))
    first = iterator if isinstance(iterator, TeeVariable) else TeeVariable(TeeBuffer(iterator))
    return TupleVariable([first, *(TeeVariable(first.buffer, first.at) for _ in range(count - 1))])


# -- groups ------------------------------------------------------------------------------------------------------------


class GroupbyVariable(ItertoolVariable):
    """``value`` and ``key_of_value``: the item that no group has yielded yet; ``target``: the key of the current
    ``group``."""

    __slots__ = ("iterator", "key_function", "target", "value", "key_of_value", "group")
    kind = itertools.groupby

    def __init__(self, iterator: VariableTracker, key_function: VariableTracker | None) -> None:
        self.source = None
        self.iterator = iterator
        self.key_function = key_function
        self.target: VariableTracker | None = None
        self.value: VariableTracker | None = None
        self.key_of_value: VariableTracker | None = None
        self.group: GroupVariable | None = None

    def step(self, tx: Translator) -> None:
        value = self.iterator.next(tx)
        self.key_of_value = value if self.key_function is None else tx.call(self.key_function, [value], {}).realize()
        self.value = value

    def next_item(self, tx: Translator) -> VariableTracker:
        self.group = None
        while self.key_of_value is None or (
            self.target is not None and tx.same_or_equal(self.target, self.key_of_value)
        ):
            self.step(tx)
        self.target = self.key_of_value
        self.group = GroupVariable(self, self.target)
        return TupleVariable([self.target, self.group])

    def reconstruct(self, cg: Codegen) -> None:
        if self.target is not None:
            raise NotConstant("an itertools.groupby that has started")
        key = self.key_function or ConstantVariable(None)
        cg.call(itertools.groupby, [lambda: cg.load(self.iterator), lambda: cg.load(key)])


class GroupVariable(ItertoolVariable):
    """A group of a ``groupby``: the items whose key equals ``target``."""

    __slots__ = ("parent", "target")
    kind = _GROUPER

    def __init__(self, parent: GroupbyVariable, target: VariableTracker) -> None:
        self.source = None
        self.parent = parent
        self.target = target

    def next_item(self, tx: Translator) -> VariableTracker:
        parent = self.parent
        if parent.group is not self:
            raise Exhausted
        if parent.value is None:
            parent.step(tx)
        assert parent.value is not None and parent.key_of_value is not None
        if not tx.same_or_equal(self.target, parent.key_of_value):
            raise Exhausted
        item = parent.value
        parent.value = parent.key_of_value = None
        return item

    def reconstruct(self, cg: Codegen) -> None:
        if self.parent.group is self:
            raise NotConstant("a group of an itertools.groupby")
        cg.call(iter, [lambda: cg.build("TUPLE", 0)])


@models(itertools.groupby)
def _groupby(tx: Translator, iterable: VariableTracker, key: VariableTracker | None = None) -> VariableTracker:
    groups = GroupbyVariable(tx.iterate(iterable), None if key is None or tx.is_none(key) else key)
    tx.attempt.provenance.created(groups)
    return groups


# -- combinatorics -----------------------------------------------------------------------------------------------------


class CombinationsVariable(ItertoolVariable):
    """``product``, ``permutations`` or ``combinations``. ``indices``: CPython's own iterator, over the items' indices;
    ``count``: how many tuples were taken."""

    __slots__ = ("cls", "pools", "args", "named", "indices", "count")

    def __init__(self, cls: Any, pools: list[list[VariableTracker]], args: list[Any], named: dict[str, Any]) -> None:
        self.source = None
        self.cls = cls
        self.pools = pools
        self.args = args
        self.named = named
        self.count = 0
        self.indices = cls(*[range(len(pool)) for pool in pools], *args, **named)

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"an itertools.{self.cls.__name__} object"

    def next_item(self, tx: Translator) -> VariableTracker:
        indices = next(self.indices, None)
        if indices is None:
            raise Exhausted
        self.count += 1
        pools = itertools.cycle(self.pools)
        return TupleVariable([pool[index] for pool, index in zip(pools, indices)])

    def reconstruct(self, cg: Codegen) -> None:
        pools = [functools.partial(cg.load_tuple, pool) for pool in self.pools]
        args = [functools.partial(cg.load_const, arg) for arg in self.args]
        named: dict[str, Load] = {name: functools.partial(cg.load_const, value) for name, value in self.named.items()}

        def create() -> None:
            cg.call_named(self.cls, [*pools, *args], named)

        cg.call(advanced, [create, lambda: cg.load_const(self.count)])


def _model_combinatoric(kind: Any) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        count = len(args) if kind is itertools.product else 1
        named = dict(kwargs)
        iterables = [*args[:count], *([named.pop("iterable")] if "iterable" in named else [])]
        if kind is not itertools.product and not iterables:
            refuse_arguments(f"itertools.{kind.__name__}")
        values = [tx.python_value(arg) for arg in args[count:]]
        named_values = {name: tx.python_value(value) for name, value in named.items()}
        pools = [each.elements(tx) for each in iterables]
        tx.fold(kind, [*((),) * len(pools), *values], named_values)
        return CombinationsVariable(kind, pools, values, named_values)

    models_raw(kind, model)


for _each in (
    itertools.product,
    itertools.permutations,
    itertools.combinations,
    itertools.combinations_with_replacement,
):
    _model_combinatoric(_each)
