"""Sets and frozensets: CPython's methods run on real sets of `Item`, which hash and compare as the traced items do.

A set's order depends on the operations that created it. So each set records them, and generated code repeats them.
"""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable, Iterable, Iterator, KeysView
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any, NamedTuple

from dynamo_lite._C import stored_hashes
from dynamo_lite.insight.break_reasons import UnknownSetOrder, UnsupportedKey, UnsupportedOperation
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Kwargs,
    NotConstant,
    ObservedException,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import (
    AS_SET_ITEM,
    check_hash_is_current,
    has_stable_hash,
    is_hashed_in_python,
    key_of,
    stored_key,
)
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, method_of

from .item_comparison import ItemComparison
from .mappings import DictVariable, DictViewVariable
from .sequences import ContainerIterator
from .set_operations import Items, Operation, RecordedSet, RepeatedOperations, State


class Item:
    """An item of a set: its tracker, which hashes and compares as its ``key``."""

    __slots__ = ("key", "tracker", "hash")

    def __init__(self, key: Any, tracker: VariableTracker) -> None:
        self.key = key
        self.tracker = tracker
        self.hash = hash(key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: Any) -> bool:
        return bool(self.key == other.key)


def item_of(tx: Translator, tracker: VariableTracker) -> Item:
    return Item(key_of(tx, tracker, AS_SET_ITEM), tracker)


class SetOperand(NamedTuple):
    """What an operation of sets takes. ``real``: an iterable of `Item`, of the operand's kind; ``taken``: the items
    that were taken from one that isn't a set."""

    real: Any
    recorded: State | Items
    taken: list[Item]
    has_known_order: bool = True

    def is_ordered(self) -> bool:
        """Whether the order is the same in every call, given the operations that created the operand."""
        return self.has_known_order and all(has_stable_hash(each.key) for each in self.taken)


def operand_of(
    tx: Translator,
    other: VariableTracker,
    note: Callable[[SetOperand], None] | None = None,
    is_exact: bool = False,
) -> SetOperand:
    """An iterable as an operand. Its items are taken one by one, when C code asks for them. ``note``: is handed each
    one, as an operand; ``is_exact``: C code iterates over sets of derived classes too."""
    other = other.realize()
    inner = other if is_exact else other.builtin_part()
    if isinstance(inner, SetVariable):
        return SetOperand(inner.items, inner.state, [], inner.has_known_order)
    if isinstance(other, DictVariable) and other.cls is dict:
        return _keys_operand(tx, map(other.key_variable, other.items), dict.fromkeys, dict.fromkeys)
    taken: list[Item] = []
    recorded = Items(tuple, [])

    def take() -> Iterator[Item]:
        for each in other.each(tx):
            taken.append(item_of(tx, each))
            recorded.trackers.append(each)
            if note is not None:
                note(_single(taken[-1]))
            yield taken[-1]

    return SetOperand(take(), recorded, taken)


def _single(item: Item) -> SetOperand:
    return SetOperand((), Items(tuple, [item.tracker]), [item])


def _keys_operand(
    tx: Translator, trackers: Iterable[VariableTracker], make: Callable[[Any], Any], real: Callable[[Any], Any]
) -> SetOperand:
    """Items that ``real`` makes a container of while tracing, and ``make`` in generated code."""
    taken = [item_of(tx, each) for each in trackers]
    return SetOperand(real(taken), Items(make, [each.tracker for each in taken]), taken)


class _Derived(frozenset[Item]):
    """Has the order that instances of derived classes have, and like them isn't what its methods return."""


class SetVariable(RecordedSet):
    """A set or frozenset. ``items``: a real one; ``has_known_order``: whether that has the traced set's order."""

    __slots__ = ("items", "cls", "has_known_order", "real")
    items: Any
    replay_rank = 1

    def __init__(self, items: Any, cls: type, has_known_order: bool = True, source: Source | None = None) -> None:
        self.source = source
        self.items = items
        self.cls = cls
        self.has_known_order = has_known_order
        self.real: list[tuple[Any, VariableTracker]] | None = None
        """The items of the real set at the source, or of a set of constants, in their order; None once the traced
        program mutated it."""
        self.operations = []
        self.readers = []

    @classmethod
    def empty(cls) -> SetVariable:
        made = cls(set(), set)
        made.record(set)
        return made

    @classmethod
    def of(cls, tx: Translator, items: VariableTracker | list[VariableTracker], kind: type = set) -> SetVariable:
        """``kind(items)``."""
        if isinstance(items, SetVariable) and items.cls is kind is frozenset:
            return items
        operand = _keys_operand(tx, items, tuple, tuple) if isinstance(items, list) else operand_of(tx, items)
        if kind is frozenset:
            return _recorded(tx, cls(frozenset(operand.real), frozenset), frozenset, operand)
        made = cls.empty()
        made.items.update(operand.real)
        made.has_known_order = operand.is_ordered()
        made.record(set.update, operand.recorded)
        tx.attempt.provenance.created(made)
        return made

    def of_derived_class(self) -> SetVariable:
        """The items of an instance of a derived class that is created from this frozenset."""
        made = SetVariable(_Derived(self.items), frozenset, self.has_known_order)
        made.record(frozenset, self.state)
        return made

    def children(self) -> Iterable[object]:
        return [*super().children(), *self.trackers]

    @property
    def trackers(self) -> list[VariableTracker]:
        return [each.tracker for each in self.items]

    def python_type(self) -> type:
        return self.cls

    def as_constant(self) -> Any:
        if self.cls is not frozenset:
            raise NotConstant("set")
        return frozenset(each.tracker.as_constant() for each in self.items)

    def python_value(self, tx: Translator) -> Any:
        return self.cls(tx.python_value(item) for item in self.elements(tx))

    def key(self) -> Any:
        if self.cls is not frozenset:
            raise NotConstant("set")
        return frozenset(each.key for each in self.items)

    # -- methods in C: CPython runs them on real sets ----------------------------------------------------------------

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in _METHODS and hasattr(self.cls, name) and not kwargs:
            return self.run(tx, name, *args)
        return super().call_method(tx, name, args, kwargs)

    def run(self, tx: Translator, name: str, *others: VariableTracker) -> VariableTracker:
        """Call a method of `_METHODS`. The traced program raises what CPython raises."""
        method: Callable[..., Any] = getattr(self.cls, name)
        if name in _ITEM_BY_ITEM and others:
            for other in others:
                self._change_by_items(tx, method, other)
            return ConstantVariable(None)
        operands = [operand_of(tx, other, is_exact=name == "isdisjoint") for other in others]
        is_mutation = name in _MUTATING
        if is_mutation:
            self._record_mutation(tx)
        before = tx.effects.last(self)
        found = ItemComparison(tx).call(method, self.items, *(each.real for each in operands))
        if tx.effects.last(self) != before:  # by an iterator over an operand
            unsupported(UnsupportedOperation(f"{name}() of items whose iterator mutates it", self.describe()))
        if type(found) in (set, frozenset) and found is not self.items:
            this = SetOperand(self.items, self.state, [], self.has_known_order)
            return _recorded(tx, SetVariable(found, type(found)), method, this, *operands)
        if is_mutation:
            self._changed(method, *operands)
        return self if found is self.items else ConstantVariable(found)

    def _change_by_items(self, tx: Translator, method: Callable[..., Any], other: VariableTracker) -> None:
        """A method that adds or removes each item of an iterable before it takes the next one."""

        def note(item: SetOperand) -> None:
            self._record_mutation(tx)
            self._changed(method, item)

        is_new = self.source is None and self.operations == [Operation(set, ())]
        operand = operand_of(tx, other, note)
        self._record_mutation(tx)
        ItemComparison(tx).call(method, self.items, operand.real)
        if isinstance(operand.recorded, State) or operand.recorded.make is not tuple:
            self._changed(method, operand)
        inner = other.builtin_part()
        if is_new and method is set.update and isinstance(inner, SetVariable):
            self.real = inner.real_in_new_set()

    def real_in_new_set(self) -> list[tuple[Any, VariableTracker]] | None:
        """Of a set of constants: its items in the order that they have in a new set which is updated by it."""
        constants: list[Any] = [each for operation in self.operations for each in operation.operands]
        if (
            self.real is None
            or self.source is not None
            or len(constants) != 1
            or not isinstance(constants[0], frozenset)
        ):
            return None
        trackers = {id(each): tracker for each, tracker in self.real}
        return [(each, trackers[id(each)]) for each in set[Any]().union(*constants)]

    def _record_mutation(self, tx: Translator) -> None:
        tx.effects.mutate(self)
        self.real = None
        if self.source is not None:
            tx.attempt.provenance.shared(self)

    def _changed(self, method: Callable[..., Any], *operands: SetOperand) -> None:
        self.has_known_order = self.has_known_order and all(each.is_ordered() for each in operands)
        self.record(method, *(each.recorded for each in operands))

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        return self._operate(tx, symbol, "r" if reflected else "", other)

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self._operate(tx, symbol, "i", other)

    def _operate(self, tx: Translator, symbol: str, prefix: str, other: VariableTracker) -> VariableTracker | None:
        is_known = symbol in SET_OPERATORS and isinstance(other.builtin_part(), SetVariable)
        name = method_of(symbol, prefix) if is_known else ""
        return self.run(tx, name, other) if is_known and hasattr(self.cls, name) else None

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SetVariable):
            return None
        return ConstantVariable(COMPARE[symbol](self.items, other.items))

    # -- protocols -------------------------------------------------------------------------------------------------

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return self._sought(tx, item) in self.items

    def _sought(self, tx: Translator, item: VariableTracker) -> Item:
        """An item that is searched or removed: CPython takes the items of a set that isn't hashable."""
        inner = item.builtin_part()
        if isinstance(inner, SetVariable) and tx.lookup(item.python_type(), "__hash__") is None:
            return item_of(tx, SetVariable.of(tx, inner, frozenset))
        return item_of(tx, item)

    def iterate(self, tx: Translator) -> VariableTracker:
        if self.has_known_order:
            return ContainerIterator(tx, self, iter, map(attrgetter("tracker"), self.items))
        return ContainerIterator(tx, self, iter, iter(self.elements(tx)), is_copy=True)

    def in_any_order(self, tx: Translator) -> Iterable[VariableTracker]:
        return self.trackers

    def elements(self, tx: Translator) -> list[VariableTracker]:
        """In the order of iteration."""
        if len(self.items) < 2 or self.has_known_order:
            return self.trackers
        if self.real is None:
            unsupported(UnknownSetOrder("iteration", self.describe()))
        if self.source is not None and self.source.kind != "const":
            self.source.check("set_order", tuple(item for item, _ in self.real))
        return [tracker for _, tracker in self.real]

    # -- methods ---------------------------------------------------------------------------------------------------

    def method_add(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        added = item_of(tx, item)
        self._record_mutation(tx)
        self.items.add(added)
        self._changed(set.update, _single(added))
        return ConstantVariable(None)

    def method_discard(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        removed = self._sought(tx, item)
        if removed in self.items:
            self._record_mutation(tx)
            self.items.remove(removed)
            self.record(set.discard, removed.tracker)
        return ConstantVariable(None)

    def method_remove(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        if not self.contains(tx, item):
            tx.raise_with(KeyError, [item])
        return self.method_discard(tx, item)

    def method_pop(self, tx: Translator) -> VariableTracker:
        if len(self.items) > 1 and not self.has_known_order:
            unsupported(UnknownSetOrder("set.pop()", self.describe()))
        popped: Item = tx.evaluate(set.pop, (self.items,))
        self._record_mutation(tx)
        self._changed(set.pop)
        return popped.tracker

    def method___init__(self, tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
        if issubclass(self.cls, frozenset):  # object.__init__: `__new__` took the arguments
            return ConstantVariable(None)
        if self.items:
            self.run(tx, "clear")
        return ConstantVariable(None) if items is None else self.run(tx, "update", items)

    # -- code ------------------------------------------------------------------------------------------------------

    def construct(self, plan: Planner) -> Value:
        self.replay(plan)
        return plan.value(self)

    def new_instance(self, plan: Planner, base: type, cls: type) -> Value:
        self._check_hashes(plan)
        return plan.state(RepeatedOperations).create_instance(plan, self, base, cls)

    def fill_instance(self, plan: Planner, instance: Value) -> None:
        self.replay(plan)

    def replay(self, plan: Planner) -> None:
        self._check_hashes(plan)
        plan.state(RepeatedOperations).repeat_all(plan, self)

    def _check_hashes(self, plan: Planner) -> None:
        for each in self.items:
            check_hash_is_current(plan.attempt, each.key)


def _recorded(tx: Translator, made: SetVariable, function: Callable[..., Any], *operands: SetOperand) -> SetVariable:
    made.has_known_order = all(each.is_ordered() for each in operands)
    made.record(function, *(each.recorded for each in operands))
    tx.attempt.provenance.created(made)
    return made


def combine_views(tx: Translator, symbol: str, left: VariableTracker, right: VariableTracker) -> SetVariable:
    """``left symbol right``, one of which is a dict's view of keys or items."""
    are_items = [isinstance(each, DictViewVariable) and each.kind == "items" for each in (left, right)]
    function = SET_OPERATORS[symbol]
    try:
        operands = (_view_operand(tx, left), _view_operand(tx, right))
        operation = _xor_of_items if symbol == "^" and all(are_items) else function
        found = ItemComparison(tx).call(operation, *(each.real for each in operands))
    except ObservedException:
        if not any(are_items):
            raise
        # CPython may not come to hash the item that isn't hashable.
        both = f"{left.describe()} and {right.describe()}"
        unsupported(UnsupportedOperation(f"`{symbol}`", f"{both}, of which an item isn't hashable,"))
    return _recorded(tx, SetVariable(found, set), function, *operands)


def _xor_of_items(left: KeysView[Item], right: KeysView[Item]) -> set[Item]:
    """For two views of items CPython has an algorithm of its own."""
    return {*(each for each in right if each not in left), *(each for each in left if each not in right)}


def _view_operand(tx: Translator, other: VariableTracker) -> SetOperand:
    if not isinstance(other, DictViewVariable) or other.kind == "values":
        return operand_of(tx, other)
    if other.kind == "keys":
        return _keys_operand(tx, other.each(tx), _keys_view, _keys_view)
    return _keys_operand(tx, other.each(tx), _items_view, lambda items: _Pairs.fromkeys(items).keys())


def _keys_view(keys: Iterable[object]) -> KeysView[object]:
    return dict.fromkeys(keys).keys()


def _items_view(pairs: Iterable[tuple[object, object]]) -> Any:
    return dict(pairs).items()


class _Pairs(dict[Item, None]):
    """Its keys stand for the items of a dict: CPython iterates over them, as it does over those."""


SET_OPERATORS = {symbol: BINARY[symbol] for symbol in "&|-^"}
_ITEM_BY_ITEM = frozenset({"update", "difference_update"})
_MUTATING = frozenset(
    {"clear", "intersection_update", "symmetric_difference_update", *(method_of(each, "i") for each in SET_OPERATORS)}
)
_METHODS = frozenset(
    """union intersection difference symmetric_difference copy issubset issuperset isdisjoint
    update difference_update intersection_update symmetric_difference_update clear""".split()
)


def set_of_constants(attempt: Attempt, value: set[Any] | frozenset[Any]) -> SetVariable:
    """The tracker of a set of constants that was computed while tracing."""
    kind = type(value)
    order = _insertion_order(value)
    trackers = {id(each): attempt.values.make(each) for each in value}
    items = kind(Item(each, trackers[id(each)]) for each in order or value)
    has_own_order = _are_same(kind(frozenset(value)), value)
    made = SetVariable(items, kind, order is not None and has_own_order)
    made.real = [(each, trackers[id(each)]) for each in value] if has_own_order else None
    made.record(kind, frozenset(value))
    return made


def _insertion_order(value: set[Any] | frozenset[Any]) -> list[Any] | None:
    """An order in which the items of a set must be added to a new one to be in the same order there; None if none is
    found. An item whose first places other items had taken must be added after those: one that is in the wrong place is
    moved, mostly to the end. Of sets of a dozen strings, whatever their hashes are, fewer than one in a hundred needs
    more tries than there are."""
    order = wanted = [*value]
    draw = random.Random(0)
    for _ in range(min(512, 1 + 50_000 // max(len(wanted), 1))):
        found = type(value)(order)
        if _are_same(found, wanted):
            return order
        moved = draw.choice([one for one, other in zip(wanted, found) if one is not other])
        order = [each for each in order if each is not moved]
        order.insert(len(order) if draw.random() < 0.6 else draw.randrange(len(order)), moved)
    return None


def _are_same(one: Iterable[object], other: Iterable[object]) -> bool:
    return all(map(operator.is_, one, other))


UNSTABLE_ITEMS = "items other than numbers, strings, classes and enum members"


def existing_set(attempt: Attempt, value: AbstractSet[Any], source: Source, kind: type) -> SetVariable | None:
    """The items of a set, or of an instance of a class that derives from ``kind``, guarded; None if they are
    `UNSTABLE_ITEMS`. Where ``__hash__`` or ``__eq__`` of items are in Python, both are traced on the items, whose
    identity is guarded: not of sets that are arguments, which have other items in each call."""
    if source.kind == "const" and type(value) is frozenset:
        return set_of_constants(attempt, value)
    objects: list[Any] = [*kind.__iter__(value)]  # type: ignore[attr-defined]
    by_methods = [*map(is_hashed_in_python, objects)]
    if not all(map(has_stable_hash, itertools.compress(objects, map(operator.not_, by_methods)))):
        return None
    if source.local_rooted and any(by_methods):
        return None
    found = [(each, attempt.values.make(each)) for each in objects]
    items = [
        Item(stored_key(attempt, tracker, stored) if is_hashed else each, tracker)
        for (each, tracker), is_hashed, stored in zip(found, by_methods, stored_hashes(value))
    ]
    is_derived = kind is frozenset and type(value) is not frozenset
    made = SetVariable((_Derived if is_derived else kind)(items), kind, False, source)
    made.real = found
    if len(made.items) != len(items):
        unsupported(UnsupportedKey("an object", "it has come to equal another item of its set"))
    attempt.values.addresses.note(tuple(each.key for each in items))
    if source.kind != "const":
        source.check("set_items", frozenset(value))  # it copies the hashes
    return made
