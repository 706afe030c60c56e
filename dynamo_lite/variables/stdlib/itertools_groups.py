"""The module ``itertools``: ``tee``, ``groupby`` and combinations.

They are classes: the iterators of ``tee`` and the groups share state, and a tee is copied, which generators can't do;
``product`` and its kin are CPython's own over the places of the items.
"""

from __future__ import annotations

import itertools
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.base import Args, Exhausted, Kwargs, NotConstant, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models, models_raw
from dynamo_lite.variables.polyfills.carried import advance_iterator
from dynamo_lite.variables.python.containers.iterator import IteratorVariable
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable


class ItertoolVariable(IteratorVariable):
    """Base. ``kind``: the real class."""

    __slots__ = ("under_way",)
    kind: type

    def next(self, tx: Translator) -> VariableTracker:
        if getattr(self, "under_way", False):
            unsupported(UnsupportedOperation("next(), by what it takes from,", self.describe()))
        self.under_way = True
        try:
            return self.next_lazily(tx)
        finally:
            self.under_way = False

    def next_lazily(self, tx: Translator) -> VariableTracker:
        """What `next` does."""
        raise NotImplementedError

    def python_type(self) -> type:
        return self.kind

    def describe(self) -> str:
        return f"an itertools.{self.kind.__name__} object"


# -- one shared by several ---------------------------------------------------------------------------------------------


_TEE: type = type(itertools.tee(())[0])
_GROUPER: type = type(next(itertools.groupby("a"))[1])


class TeeBuffer(VariableTracker):
    """What the iterators that ``tee`` gave have in common: the items taken so far and where more come from."""

    __slots__ = ("of", "items")

    def __init__(self, of: VariableTracker) -> None:
        self.source = None
        self.of = of
        self.items: list[VariableTracker] = []

    def python_type(self) -> type:
        return _TEE

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(_tee, [lambda: cg.load_tuple(self.items), lambda: cg.load(self.of)])


def _tee(items: tuple[Any, ...], rest: Any) -> Any:
    return itertools.tee(itertools.chain(items, rest), 1)[0]


class TeeVariable(ItertoolVariable):
    __slots__ = ("buffer", "at")
    kind = _TEE

    def __init__(self, buffer: TeeBuffer, at: int = 0) -> None:
        self.source = None
        self.buffer = buffer
        self.at = at

    def next_lazily(self, tx: Translator) -> VariableTracker:
        if self.at == len(self.buffer.items):
            self.buffer.items.append(self.buffer.of.next(tx))
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
    """``value`` and ``at``: the item that was taken last and its key; ``group``: the group that may take more."""

    __slots__ = ("of", "key_function", "target", "value", "at", "group")
    kind = itertools.groupby

    def __init__(self, of: VariableTracker, key: VariableTracker | None) -> None:
        self.source = None
        self.of = of
        self.key_function = key
        self.target: VariableTracker | None = None
        self.value: VariableTracker | None = None
        self.at: VariableTracker | None = None
        self.group: GroupVariable | None = None

    def step(self, tx: Translator) -> None:
        value = self.of.next(tx)
        self.at = value if self.key_function is None else tx.call(self.key_function, [value], {}).realize()
        self.value = value

    def next_lazily(self, tx: Translator) -> VariableTracker:
        self.group = None
        while self.at is None or (self.target is not None and tx.same_or_equal(self.target, self.at)):
            self.step(tx)
        self.target = self.at
        self.group = GroupVariable(self, self.at)
        return TupleVariable([self.at, self.group])

    def reconstruct(self, cg: Codegen) -> None:
        if self.target is not None:
            raise NotConstant("an itertools.groupby that has begun")
        key = self.key_function or ConstantVariable(None)
        cg.call(itertools.groupby, [lambda: cg.load(self.of), lambda: cg.load(key)])


class GroupVariable(ItertoolVariable):
    __slots__ = ("parent", "target")
    kind = _GROUPER

    def __init__(self, parent: GroupbyVariable, target: VariableTracker) -> None:
        self.source = None
        self.parent = parent
        self.target = target

    def next_lazily(self, tx: Translator) -> VariableTracker:
        parent = self.parent
        if parent.group is not self:
            raise Exhausted
        if parent.value is None:
            parent.step(tx)
        assert parent.value is not None and parent.at is not None
        if not tx.same_or_equal(self.target, parent.at):
            raise Exhausted
        found = parent.value
        parent.value = parent.at = None
        return found

    def reconstruct(self, cg: Codegen) -> None:
        if self.parent.group is self:
            raise NotConstant("a group of an itertools.groupby")
        cg.call(iter, [lambda: cg.build("TUPLE", 0)])


@models(itertools.groupby)
def _groupby(tx: Translator, iterable: VariableTracker, key: VariableTracker | None = None) -> VariableTracker:
    made = GroupbyVariable(tx.iterate(iterable), None if key is None or tx.is_none(key) else key)
    tx.attempt.provenance.created(made)
    return made


# -- combinatorics -----------------------------------------------------------------------------------------------------


class CombinationsVariable(ItertoolVariable):
    """``product`` and its kin: CPython's own over the places of the items."""

    __slots__ = ("kind_", "pools", "args", "named", "places", "taken", "pool_of")

    def __init__(self, kind: Any, pools: list[list[VariableTracker]], args: list[Any], named: dict[str, Any]) -> None:
        self.source = None
        self.kind_ = kind
        self.pools = pools
        self.args = args
        self.named = named
        self.taken = 0
        self.places = kind(*[range(len(pool)) for pool in pools], *args, **named)

    def python_type(self) -> type:
        return self.kind_

    def describe(self) -> str:
        return f"an itertools.{self.kind_.__name__} object"

    def next_lazily(self, tx: Translator) -> VariableTracker:
        places = next(self.places, None)
        if places is None:
            raise Exhausted
        self.taken += 1
        count = len(self.pools)
        return TupleVariable([self.pools[at % count][place] for at, place in enumerate(places)])

    def reconstruct(self, cg: Codegen) -> None:
        pools = [lambda pool=pool: cg.load_tuple(pool) for pool in self.pools]
        args = [lambda arg=arg: cg.load_const(arg) for arg in self.args]
        named = {name: (lambda value=value: cg.load_const(value)) for name, value in self.named.items()}

        def make() -> None:
            cg.call_named(self.kind_, [*pools, *args], named)

        cg.call(advance_iterator, [make, lambda: cg.load_const(self.taken)])


def _combinatoric(kind: Any) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        count = len(args) if kind is itertools.product else 1
        named = dict(kwargs)
        iterables = [*args[:count], *([named.pop("iterable")] if "iterable" in named else [])]
        if kind is not itertools.product and not iterables:
            unsupported(UnsupportedOperation(f"itertools.{kind.__name__}()", "these arguments"))
        values = [tx.python_value(arg) for arg in args[count:]]
        named_values = {name: tx.python_value(value) for name, value in named.items()}
        pools = [each.elements(tx) for each in iterables]
        tx.fold(kind, [*((),) * len(pools), *values], named_values)
        return CombinationsVariable(kind, pools, values, named_values)

    models_raw(kind, model)


for _each in (
    *(itertools.product, itertools.permutations),
    *(itertools.combinations, itertools.combinations_with_replacement),
):
    _combinatoric(_each)
