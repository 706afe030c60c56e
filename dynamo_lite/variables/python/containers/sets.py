"""Sets and frozensets: trackers under their keys, with the order of iteration.

A set's order depends on the operations that created it. So each tracker does them on a real set of the same keys
(``table``), and records them (``recipe``), so that generated code can repeat them.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView
from typing import Any, NamedTuple

from dynamo_lite._C import stored_hashes
from dynamo_lite.insight.break_reasons import UnknownSetOrder, UnsupportedKey, UnsupportedOperation
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import (
    Attempt,
    NotConstant,
    ObservedException,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.base_kinds import ContainerVariable
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
from dynamo_lite.variables.core.wrapping import wraps_type

from .mappings import DictVariable, DictViewVariable
from .sequences import UnmutatedIterator
from .set_recipes import EMPTY, Items, Recipe, RecordedSet, SetStates, created, existing, mutated, record, updated


class Operand(NamedTuple):
    """What an operation of sets takes."""

    real: Any
    """The keys, in a real container of the operand's kind."""
    trackers: Iterable[tuple[Any, VariableTracker]]
    """Each key of ``real`` with its tracker."""
    has_known_order: bool
    """Whether the order is the same in every call, given the operations that created the operand."""
    recipe: Recipe | Items


def _operand_of_items(tx: Translator, items: list[VariableTracker]) -> Operand:
    keys = [key_of(tx, item, AS_SET_ITEM) for item in items]
    return Operand(keys, list(zip(keys, items)), all(map(has_stable_hash, keys)), Items(tuple, tuple(items)))


def operand_of(tx: Translator, other: VariableTracker) -> Operand:
    """An iterable as an operand of a set's method."""
    inner = other.builtin_part()
    if isinstance(inner, SetVariable):
        return inner.as_operand()
    if isinstance(other, DictVariable) and other.cls is dict:
        operand = _operand_of_items(tx, [other.key_variable(key) for key in other.items])
        return _with_container(operand, dict.fromkeys)
    return _operand_of_items(tx, other.elements(tx))


def _with_container(operand: Operand, make: Callable[[Any], Any]) -> Operand:
    """An operand of the same items, in the container that ``make`` creates of them."""
    trackers = tuple(tracker for _, tracker in operand.trackers)
    return operand._replace(real=make(operand.real), recipe=Items(make, trackers))


def _apply(operation: Callable[..., Any], operands: tuple[Operand, ...]) -> tuple[Any, dict[Any, VariableTracker]]:
    """The result on the real containers, a set of keys, and the trackers of its items."""
    by_id: dict[int, tuple[Any, VariableTracker]] = {}
    """The keys are kept: a deallocated one would leave its id to the next."""
    by_key: dict[Any, tuple[Any, VariableTracker]] = {}
    """For the pairs of a view of items, which creates new ones."""
    for operand in operands:
        for key, tracker in operand.trackers:
            by_key.setdefault(key, by_id.setdefault(id(key), (key, tracker)))
    table = operation(*(each.real for each in operands))
    return table, {key: by_id.get(id(key), by_key[key])[1] for key in table}


def _combining(name: str) -> Callable[..., VariableTracker]:
    """The model of a method that returns a new set."""

    def combine(self: Any, tx: Translator, *others: VariableTracker) -> VariableTracker:
        return self._combine(tx, getattr(self.cls, name), *others)

    return combine


def _each_key(tx: Translator, items: VariableTracker, other: VariableTracker) -> Iterator[Any]:
    """The keys of an iterable's items, one by one: a test that is decided leaves the rest of an iterator. ``items``:
    what C code reads directly if it is a set."""
    return iter(items.items) if isinstance(items, SetVariable) else (key_of(tx, item) for item in other.each(tx))


class _Derived(frozenset[Any]):
    """Has the order that instances of derived classes have."""


class SetVariable(ContainerVariable, RecordedSet):
    """A set or frozenset. ``items``: the items' trackers by their keys; ``table``: a real set with the traced set's
    order, None if the order isn't known."""

    __slots__ = ("items", "cls", "table", "recipe", "real", "read_state")
    replay_rank = 1

    def __init__(
        self,
        items: dict[Any, VariableTracker],
        cls: type,
        table: Any,
        recipe: Recipe,
        source: Source | None = None,
        real: Any = None,
    ) -> None:
        self.source = source
        self.items: dict[Any, VariableTracker] = items
        self.cls = cls
        self.table = table
        self.recipe = recipe
        self.real = real
        """The items of the real set at the source, in their order; None once the traced program mutated it."""
        self.read_state: Recipe | None = None
        """The state in which it was an operand last."""

    @classmethod
    def empty(cls) -> SetVariable:
        return cls({}, set, set(), EMPTY)

    @classmethod
    def of(cls, tx: Translator, items: VariableTracker | list[VariableTracker], kind: type = set) -> SetVariable:
        """``kind(items)``."""
        if isinstance(items, SetVariable) and items.cls is kind is frozenset:
            return items
        operand = _operand_of_items(tx, items) if isinstance(items, list) else operand_of(tx, items)
        if kind is set:
            result = cls.empty()
            result.update(operand)
            record(tx, result, None)
            return result
        return result_of(tx, frozenset, (operand,), frozenset)

    def as_operand(self) -> Operand:
        self.read_state = self.recipe
        return self._as_operand()

    def _as_operand(self) -> Operand:
        real = self.table if self.table is not None else self.cls(self.items)
        return Operand(real, list(self.items.items()), self.table is not None, self.recipe)

    def of_derived_class(self) -> SetVariable:
        """The items of an instance of a derived class that is created from this frozenset."""
        return SetVariable(
            dict(self.items), frozenset, None if self.table is None else _Derived(self.table), self.recipe
        )

    def copied(self) -> SetVariable:
        """The frozenset with the items of an instance of a derived class, in an order of its own."""
        table = frozenset(self.items) if len(self.items) < 2 else None
        return SetVariable(dict(self.items), frozenset, table, created(frozenset, self.recipe))

    def python_type(self) -> type:
        return self.cls

    def as_constant(self) -> Any:
        if self.cls is not frozenset:
            raise NotConstant("set")
        return frozenset(item.as_constant() for item in self.items.values())

    def python_value(self, tx: Translator) -> Any:
        return self.cls(tx.python_value(item) for item in self.elements(tx))

    def key(self) -> Any:
        if self.cls is not frozenset:
            raise NotConstant("set")
        return frozenset(self.items)

    # -- combining -------------------------------------------------------------------------------------------------

    def update(self, operand: Operand) -> None:
        """``set.update`` without a pass over the present items, since programs gather items in loops."""
        if self.table is not None and operand.has_known_order:
            self.table.update(operand.real)
        else:
            self.table = None
        self.recipe = updated(self.recipe, operand.recipe, self.read_state is self.recipe)
        for key, tracker in operand.trackers:
            self.items.setdefault(key, tracker)

    def _mutate(self, tx: Translator, operation: Callable[..., Any], *operands: Operand) -> Any:
        """Mutate this set by a method of ``set``; the method's result, which is a key or None."""
        tx.effects.mutate(self)
        self.real = None
        if operation is set.update:
            for each in operands:
                before = self.recipe
                self.update(each)
                record(tx, self, before)
            return None
        results: list[Any] = []

        def change(table: object, *others: object) -> object:
            results.append(operation(table, *others))
            return table

        has_known_order = self.table is not None and all(each.has_known_order for each in operands)
        table, self.items = _apply(change, (self._as_operand(), *operands))
        self.table = table if has_known_order else None
        before, self.recipe = self.recipe, mutated(operation, self.recipe, *(each.recipe for each in operands))
        record(tx, self, before)
        return results[0]

    def _change(self, tx: Translator, operation: Callable[..., Any], *others: VariableTracker) -> VariableTracker:
        self._mutate(tx, operation, *(operand_of(tx, other) for other in others))
        return ConstantVariable(None)

    def _combine(self, tx: Translator, operation: Callable[..., Any], *others: VariableTracker) -> VariableTracker:
        return result_of(tx, operation, (self.as_operand(), *(operand_of(tx, other) for other in others)), self.cls)

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if symbol not in SET_OPERATORS or not isinstance(other.builtin_part(), SetVariable):
            return None
        if reflected:
            return result_of(
                tx, getattr(self.cls, method_of(symbol, "r")), (self.as_operand(), operand_of(tx, other)), self.cls
            )
        return self._combine(tx, getattr(self.cls, method_of(symbol)), other)

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol not in SET_OPERATORS or self.cls is frozenset or not isinstance(other.builtin_part(), SetVariable):
            return None
        self._change(tx, _IN_PLACE[symbol], other)
        return self

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SetVariable):
            return None
        return ConstantVariable(COMPARE[symbol](set(self.items), set(other.items)))

    # -- protocols -------------------------------------------------------------------------------------------------

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return self._lookup(tx, item) in self.items

    def iterate(self, tx: Translator) -> VariableTracker:
        return UnmutatedIterator(tx, self, self.elements(tx), iter)

    def in_any_order(self, tx: Translator) -> Iterable[VariableTracker]:
        return self.items.values()

    def order(self, tx: Translator) -> list[Any]:
        """The keys in the order of iteration."""
        if len(self.items) > 1 and self.table is None:
            if self.real is None or self.source is None:
                unsupported(UnknownSetOrder("iteration", self.describe()))
            if self.source.kind != "const":
                self.source.check("set_order", tuple(self.real))
            return list(self.items)
        return list(self.items if self.table is None else self.table)

    def elements(self, tx: Translator) -> list[VariableTracker]:
        return [self.items[key] for key in self.order(tx)]

    # -- methods ---------------------------------------------------------------------------------------------------

    def method_add(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        self._mutate(tx, set.update, _operand_of_items(tx, [item]))
        return ConstantVariable(None)

    def method_discard(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        self._discard(tx, self._lookup(tx, item))
        return ConstantVariable(None)

    def _discard(self, tx: Translator, key: Any) -> None:
        if key in self.items:
            self._mutate(tx, set.difference_update, _operand_of_items(tx, [self.items[key]]))

    def _lookup(self, tx: Translator, item: VariableTracker) -> Any:
        """The key of an item that is searched or removed: CPython treats a set as a frozenset there."""
        inner = item.builtin_part()
        return frozenset(inner.items) if isinstance(inner, SetVariable) else key_of(tx, item, AS_SET_ITEM)

    def method_remove(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        if self._lookup(tx, item) not in self.items:
            tx.raise_with(KeyError, [item])
        return self.method_discard(tx, item)

    method_union, method_intersection, method_difference = map(_combining, ("union", "intersection", "difference"))

    def method_symmetric_difference(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return self._combine(tx, self.cls.symmetric_difference, other)  # type: ignore[attr-defined]

    def method_symmetric_difference_update(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return self._change(tx, set.symmetric_difference_update, other)

    def method_pop(self, tx: Translator) -> VariableTracker:
        if not self.items:
            tx.raise_error(KeyError, "pop from an empty set")
        if self.table is None and len(self.items) > 1:
            unsupported(UnknownSetOrder("set.pop()", self.describe()))
        trackers = self.items
        return trackers[self._mutate(tx, set.pop)]

    def method_update(self, tx: Translator, *others: VariableTracker) -> VariableTracker:
        for other in others:
            if isinstance(other.builtin_part(), (SetVariable, DictVariable)):
                self._change(tx, set.update, other)
            else:
                for item in other.each(tx):
                    self.method_add(tx, item)
        return ConstantVariable(None)

    def method_intersection_update(self, tx: Translator, *others: VariableTracker) -> VariableTracker:
        return self._change(tx, set.intersection_update, *others)

    def method_difference_update(self, tx: Translator, *others: VariableTracker) -> VariableTracker:
        for other in others:  # one by one, since the next may raise
            if isinstance(other.builtin_part(), (SetVariable, DictVariable)):
                self._change(tx, set.difference_update, other)
            else:
                for item in other.each(tx):
                    self._discard(tx, key_of(tx, item, AS_SET_ITEM))
        return ConstantVariable(None)

    def method_clear(self, tx: Translator) -> VariableTracker:
        return self._change(tx, set.clear)

    def method_copy(self, tx: Translator) -> VariableTracker:
        return self if self.cls is frozenset else self._combine(tx, self.cls.copy)  # type: ignore[attr-defined]

    def method_issubset(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(set(self.items).issubset(operand_of(tx, other).real))

    def method_issuperset(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(all(key in self.items for key in _each_key(tx, other.builtin_part(), other)))

    def method_isdisjoint(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(not any(key in self.items for key in _each_key(tx, other.realize(), other)))

    def method___init__(self, tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
        if issubclass(self.cls, frozenset):  # object.__init__: `__new__` took the arguments
            return ConstantVariable(None)
        self._change(tx, set.clear)
        return ConstantVariable(None) if items is None else self._change(tx, set.update, items)

    # -- code ------------------------------------------------------------------------------------------------------

    def construct(self, plan: Planner) -> Value:
        self._check_hashes(plan)
        return plan.state(SetStates).create(plan, self)

    def _check_hashes(self, plan: Planner) -> None:
        for raw in self.items:
            check_hash_is_current(plan.attempt, raw)

    def new_instance(self, plan: Planner, base: type, cls: type) -> Value:
        self._check_hashes(plan)
        items = [] if base is set else [plan.state(SetStates).value(plan, self.recipe)]
        return plan.call(base.__new__, plan.constant(cls), *items)

    def fill_instance(self, plan: Planner, instance: Value) -> None:
        """Repeat the operations on the empty set, an instance of a subclass."""
        if self.cls is set:
            plan.state(SetStates).fill(plan, self, instance)

    def replay(self, plan: Planner) -> None:
        self._check_hashes(plan)
        plan.state(SetStates).replay(plan)


def result_of(tx: Translator, operation: Callable[..., Any], operands: tuple[Operand, ...], kind: type) -> SetVariable:
    """The new set that an operation on several operands returns."""
    table, items = _apply(operation, operands)
    recipe = created(operation, *(each.recipe for each in operands))
    result = SetVariable(items, kind, table if all(each.has_known_order for each in operands) else None, recipe)
    record(tx, result, None)
    return result


def combine_views(tx: Translator, symbol: str, left: VariableTracker, right: VariableTracker) -> SetVariable:
    """``left symbol right``, one of which is a dict's view of keys or items."""
    try:
        operands = (_view_operand(tx, left), _view_operand(tx, right))
    except ObservedException:
        if not (_is_view_of_items(left) or _is_view_of_items(right)):
            raise
        # CPython may not come to hash the item that isn't hashable.
        both = f"{left.describe()} and {right.describe()}"
        unsupported(UnsupportedOperation(f"`{symbol}`", f"{both}, of which an item isn't hashable,"))
    return result_of(tx, SET_OPERATORS[symbol], operands, set)


def _is_view_of_items(operand: VariableTracker) -> bool:
    return isinstance(operand, DictViewVariable) and operand.kind == "items"


def _view_operand(tx: Translator, other: VariableTracker) -> Operand:
    operand = operand_of(tx, other)
    if isinstance(other, DictViewVariable) and other.kind != "values":
        return _with_container(operand, _keys_view if other.kind == "keys" else _items_view)
    return operand


def _keys_view(keys: Iterable[object]) -> KeysView[object]:
    return dict.fromkeys(keys).keys()


def _items_view(pairs: Iterable[tuple[object, object]]) -> ItemsView[object, object]:
    return dict(pairs).items()


SET_OPERATORS = {symbol: BINARY[symbol] for symbol in "&|-^"}
_IN_PLACE = {
    "&": set.intersection_update,
    "|": set.update,
    "-": set.difference_update,
    "^": set.symmetric_difference_update,
}


def set_of_constants(attempt: Attempt, value: set[Any] | frozenset[Any]) -> SetVariable:
    """The tracker of a set of constants that was computed while tracing."""
    items = {item: attempt.values.make(item) for item in value}
    recipe = Recipe(None, (frozenset(value),))
    if type(value) is frozenset:
        return SetVariable(items, frozenset, value, recipe)
    table = set(value)
    return SetVariable(items, set, table if list(table) == list(value) else None, Recipe(set, (recipe,)))


@wraps_type(set, frozenset)
def _wrap_set(attempt: Attempt, value: set[Any] | frozenset[Any], source: Source) -> VariableTracker:
    if source.kind == "const" and type(value) is frozenset:
        return set_of_constants(attempt, value)
    source.check_type(value)
    found = existing_set(attempt, value, source, type(value))
    return attempt.values.opaque(value, source, f"it has {UNSTABLE_ITEMS}") if found is None else found


UNSTABLE_ITEMS = "items other than numbers, strings, classes and enum members"


def existing_set(attempt: Attempt, value: Any, source: Source, kind: type) -> SetVariable | None:
    """The items of a set, or of an instance of a class that derives from ``kind``, guarded; None if they are
    `UNSTABLE_ITEMS`."""
    keys: list[Any] = [*kind.__iter__(value)]  # type: ignore[attr-defined]
    if any(map(is_hashed_in_python, keys)):
        return _set_of_hashed_items(attempt, value, keys, source, kind)
    if not all(map(has_stable_hash, keys)):
        return None
    items = {item: attempt.values.make(item) for item in keys}
    attempt.values.addresses.note(tuple(items))
    if source.kind != "const":
        source.check("set_items", frozenset(keys))
    return SetVariable(items, kind, None, existing(source), source, keys)


def _set_of_hashed_items(
    attempt: Attempt, value: Any, keys: list[Any], source: Source, kind: type
) -> SetVariable | None:
    """`existing_set` where ``__hash__`` or ``__eq__`` of items are in Python: both are traced on the items, whose
    identity is guarded, and attributes. None for sets that are arguments: those have other items in each call."""
    is_hashed = [*map(is_hashed_in_python, keys)]
    if source.local_rooted or not all(each or has_stable_hash(key) for each, key in zip(is_hashed, keys)):
        return None
    items: dict[Any, VariableTracker] = {}
    for key, by_methods, stored in zip(keys, is_hashed, stored_hashes(value)):
        item = attempt.values.make(key)
        items[stored_key(attempt, item, stored) if by_methods else key] = item
    if len(items) != len(keys):
        unsupported(UnsupportedKey("an object", "it has come to equal another item of its set"))
    source.check("set_items", frozenset(value))  # it copies the hashes
    return SetVariable(items, kind, None, existing(source), source, keys)
