"""Sets and frozensets: trackers under their keys, with the order of iteration.

A set's order depends on the operations that created it. So each tracker does them on a real set of the same keys
(``table``), and records them (``recipe``), so that generated code can repeat them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from dynamo_lite.insight.break_reasons import ChangedDuringIteration, UnknownSetOrder
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import (
    ContainerVariable,
    Exhausted,
    IteratorVariable,
    NotConstant,
    VariableTracker,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import has_stable_hash, key_of
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.polyfills.recreation import advance_iterator

from .mappings import DictVariable, DictViewVariable


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a set was created: ``operation``, a method or function, was called on ``operands``, each a `Recipe` or
    `Items`. Without an operation the only operand is a `Source` that holds the set, a class (the set is empty), or a
    frozenset."""

    operation: Any
    operands: tuple[Any, ...]
    is_mutation: bool = False
    """Whether the operation mutates its first operand, which is the set."""


@dataclass(frozen=True, eq=False)
class Items:
    """The items of an operand that isn't a set. ``real``: their keys, in a real list, dict or view of a dict."""

    trackers: tuple[VariableTracker, ...]
    real: Any


def _has_known_order(keys: Iterable[Any]) -> bool:
    """Whether a set of these keys has the same order in every call, given the operations that created it."""
    return all(map(has_stable_hash, keys))


def _real(operand: SetVariable | Items) -> Any:
    """The keys in a real container."""
    if isinstance(operand, Items):
        return operand.real
    return operand.table if operand.table is not None else operand.cls(operand.items)


def _pairs(operand: SetVariable | Items) -> Iterable[tuple[Any, VariableTracker]]:
    return zip(operand.real, operand.trackers) if isinstance(operand, Items) else operand.items.items()


def operand_of(tx: Translator, other: VariableTracker) -> SetVariable | Items:
    """The operand of a set's operation for any iterable."""
    inner = other.builtin_part()
    if isinstance(inner, SetVariable):
        return inner
    if isinstance(other, DictVariable) and other.cls is dict:
        trackers = tuple(other.key_variable(key) for key in other.items)
        return Items(trackers, dict.fromkeys(other.items))
    found = other.elements(tx)
    return Items(tuple(found), [key_of(tx, item) for item in found])


class SetVariable(ContainerVariable):
    """A set or frozenset. ``items``: the items' trackers by their keys; ``table``: a real set with the traced set's
    order, None if the order isn't known."""

    __slots__ = ("items", "cls", "table", "recipe", "real", "was_empty")

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
        self.items = items
        self.cls = cls
        self.table = table
        self.recipe = recipe
        self.was_empty = not items
        self.real = real
        """The real set at the source; None once the traced program mutated it."""

    @classmethod
    def empty(cls) -> SetVariable:
        return cls({}, set, set(), Recipe(None, (set,)))

    @classmethod
    def of(cls, tx: Translator, items: VariableTracker | list[VariableTracker], kind: type = set) -> SetVariable:
        """``kind(items)``."""
        if isinstance(items, SetVariable) and items.cls is kind is frozenset:
            return items
        if isinstance(items, list):
            operand: SetVariable | Items = Items(tuple(items), [key_of(tx, item) for item in items])
        else:
            operand = operand_of(tx, items)
        result = cls.empty()
        result._update((operand,))
        return result if kind is set else result.combined(frozenset, (result,), frozenset)

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"a {self.cls.__name__} of {len(self.items)}"

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

    def _real_operands(
        self, operands: tuple[SetVariable | Items, ...]
    ) -> tuple[list[Any], Callable[[Any], VariableTracker]]:
        """The operands as real containers of keys, and the function from one of these keys to its tracker."""
        reals: list[Any] = []
        by_id: dict[int, tuple[Any, VariableTracker]] = {}
        """The keys are kept: a view of items creates them, and a deallocated one would leave its id to the next."""
        by_value: dict[Any, VariableTracker] = {}
        for each in operands:
            reals.append(_real(each))
            for key, tracker in _pairs(each):
                by_id.setdefault(id(key), (key, tracker))
                by_value.setdefault(key, tracker)
        return reals, lambda key: by_id[id(key)][1] if id(key) in by_id else by_value[key]

    def _have_known_order(self, operands: tuple[SetVariable | Items, ...]) -> bool:
        return all(
            each.table is not None if isinstance(each, SetVariable) else _has_known_order(each.real)
            for each in operands
        )

    def _add(self, item: VariableTracker, key: Any) -> None:
        """`_update` by one item."""
        self.recipe = Recipe(set.update, (self.recipe, Items((item,), [key])), is_mutation=True)
        self.items.setdefault(key, item)
        self.real = None
        if self.table is not None:
            if has_stable_hash(key):
                self.table.add(key)
            else:
                self.table = None

    def _do(self, operation: Any, operands: tuple[SetVariable | Items, ...]) -> Any:
        """Mutate this set by a method of ``set``; the method's result, which is a key or None."""
        if operation is set.update:
            self._update(operands)
            return None
        reals, tracker_of = self._real_operands((self, *operands))
        table = reals[0]
        returned = operation(table, *reals[1:])
        has_known_order = self._have_known_order((self, *operands))
        self.recipe = Recipe(operation, (self.recipe, *map(_recipe, operands)), is_mutation=True)
        self.items = {key: tracker_of(key) for key in table}
        self.table = table if has_known_order else None
        self.real = None
        return returned

    def _update(self, operands: tuple[SetVariable | Items, ...]) -> None:
        """``set.update`` without a pass over the present items, since programs gather items in loops."""
        if self.table is not None and self._have_known_order(operands):
            self.table.update(*map(_real, operands))
        else:
            self.table = None
        self.recipe = Recipe(set.update, (self.recipe, *map(_recipe, operands)), is_mutation=True)
        for each in operands:
            for key, tracker in list(_pairs(each)):
                self.items.setdefault(key, tracker)
        self.real = None

    def combined(self, operation: Any, operands: tuple[SetVariable | Items, ...], kind: type) -> SetVariable:
        """The new set that an operation on several operands returns."""
        reals, tracker_of = self._real_operands(operands)
        table = operation(*reals)
        recipe = Recipe(operation, tuple(map(_recipe, operands)))
        items = {key: tracker_of(key) for key in table}
        return SetVariable(items, kind, table if self._have_known_order(operands) else None, recipe)

    def _change(self, tx: Translator, operation: Any, *others: VariableTracker) -> VariableTracker:
        operands = tuple(operand_of(tx, other) for other in others)
        tx.effects.mutate(self)
        self._do(operation, operands)
        return ConstantVariable(None)

    def _combine(self, tx: Translator, operation: Any, *others: VariableTracker) -> VariableTracker:
        return self.combined(operation, (self, *(operand_of(tx, other) for other in others)), self.cls)

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        if symbol not in SET_OPERATORS or reflected or not isinstance(other, SetVariable):
            return None
        return self._combine(tx, SET_OPERATORS[symbol], other)

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol not in SET_OPERATORS or self.cls is frozenset or not isinstance(other, SetVariable):
            return None
        self._change(tx, _IN_PLACE[symbol], other)
        return self

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SetVariable):
            return None
        return ConstantVariable(COMPARE[symbol](set(self.items), set(other.items)))

    # -- protocols -------------------------------------------------------------------------------------------------

    def length(self, tx: Translator) -> int:
        return len(self.items)

    def truth(self, tx: Translator) -> bool:
        return bool(self.items)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return self._lookup(tx, item) in self.items

    def iterate(self, tx: Translator) -> VariableTracker:
        return SetIterator(self, self.order(tx))

    def order(self, tx: Translator) -> list[Any]:
        """The keys in the order of iteration."""
        if len(self.items) > 1 and self.table is None:
            if self.real is None or self.source is None:
                unsupported(UnknownSetOrder("iteration", self.describe()))
            if self.source.kind != "const":
                self.source.check("set_order", tuple(self.real))
            return list(self.real)
        return list(self.items if self.table is None else self.table)

    def elements(self, tx: Translator) -> list[VariableTracker]:
        return [self.items[key] for key in self.order(tx)]

    # -- methods ---------------------------------------------------------------------------------------------------

    def method_add(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        key = key_of(tx, item)
        tx.effects.mutate(self)
        self._add(item, key)
        return ConstantVariable(None)

    def method_discard(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        key = self._lookup(tx, item)
        if key in self.items:
            tx.effects.mutate(self)
            self._do(set.difference_update, (Items((self.items[key],), [key]),))
        return ConstantVariable(None)

    def _lookup(self, tx: Translator, item: VariableTracker) -> Any:
        """The key of an item that is searched or removed: CPython treats a set as a frozenset there."""
        inner = item.builtin_part()
        return frozenset(inner.items) if isinstance(inner, SetVariable) else key_of(tx, item)

    def method_remove(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        if self._lookup(tx, item) not in self.items:
            tx.raise_with(KeyError, [item])
        return self.method_discard(tx, item)

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
        tx.effects.mutate(self)
        return trackers[self._do(set.pop, ())]

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
            self._change(tx, set.difference_update, other)
        return ConstantVariable(None)

    def method_clear(self, tx: Translator) -> VariableTracker:
        return self._change(tx, set.clear)

    def method_copy(self, tx: Translator) -> VariableTracker:
        return self if self.cls is frozenset else self._combine(tx, self.cls.copy)  # type: ignore[attr-defined]

    def method_isdisjoint(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(set(self.items).isdisjoint(self._keys(tx, other)))

    def method_issubset(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(set(self.items).issubset(self._keys(tx, other)))

    def method_issuperset(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(set(self.items).issuperset(self._keys(tx, other)))

    def _keys(self, tx: Translator, other: VariableTracker) -> list[Any]:
        operand = operand_of(tx, other)
        return list(operand.items if isinstance(operand, SetVariable) else operand.real)

    def method___init__(self, tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
        if issubclass(self.cls, frozenset):  # object.__init__: `__new__` took the arguments
            return ConstantVariable(None)
        self._change(tx, set.clear)
        return ConstantVariable(None) if items is None else self._change(tx, set.update, items)

    # -- code ------------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: Codegen) -> None:
        if self.cls is frozenset:
            _emit(cg, self.recipe)
            return
        first, changes = _unrolled(self.recipe)
        if first.operation is None and first.operands[0] is set:
            cg.make_then_fill(self, lambda: cg.build("SET", 0), lambda cg: _replay_on_top(cg, changes))
        else:
            _emit(cg, self.recipe)

    def fill_instance(self, cg: Codegen, base: type) -> None:
        """Emit code that repeats the operations on the empty set on top of the stack, an instance of a subclass."""
        _replay_on_top(cg, _unrolled(self.recipe)[1])

    def replay(self, cg: Codegen) -> None:
        changes = _unrolled(self.recipe)[1]
        if not self.items and self.was_empty:
            return
        cg.load_source(self.source)
        _replay_on_top(cg, changes)
        cg.pop_top()


def _unrolled(recipe: Recipe) -> tuple[Recipe, list[Recipe]]:
    """The recipe of the set's first state, and the mutations since, in order."""
    changes: list[Recipe] = []
    while recipe.is_mutation:
        changes.append(recipe)
        recipe = recipe.operands[0]
    changes.reverse()
    return recipe, changes


def _replay_on_top(cg: Codegen, changes: list[Recipe]) -> None:
    for change in _merged(changes):
        cg.call_with_top(change.operation, [partial(_load_operand, cg, each) for each in change.operands[1:]])


def _load_operand(cg: Codegen, operand: Recipe | Items) -> None:
    if isinstance(operand, Recipe):
        _emit(cg, operand)
        return
    convert = {dict: dict.fromkeys, _KEYS: _keys_view, _ITEMS: _items_view}.get(type(operand.real), tuple)
    cg.call(convert, [lambda: cg.load_tuple(operand.trackers)])


def _emit(cg: Codegen, recipe: Recipe) -> None:
    """Emit code that creates a set by its recipe."""
    first, changes = _unrolled(recipe)
    if first.operation is not None:
        cg.call(first.operation, [partial(_load_operand, cg, each) for each in first.operands])
    else:
        _emit_first(cg, first.operands[0], bool(changes))
    _replay_on_top(cg, changes)


def _emit_first(cg: Codegen, origin: Any, is_mutated: bool) -> None:
    """Load the set before any operation. ``origin``: a source, a class or a frozenset."""
    if isinstance(origin, Source):
        if is_mutated or cg.attempt.effects.changed(origin):
            raise NotConstant("a set that was mutated since")
        cg.load_source(origin)
    elif origin is set:
        cg.build("SET", 0)
    else:
        cg.load_const(origin if isinstance(origin, frozenset) else origin())


def _merged(changes: list[Recipe]) -> list[Recipe]:
    """The same mutations, with successive additions of items merged into one."""
    found: list[Recipe] = []
    for change in changes:
        before = found[-1] if found else None
        if before is not None and _adds_items(before) and _adds_items(change):
            one, other = before.operands[1], change.operands[1]
            both = Items((*one.trackers, *other.trackers), [*one.real, *other.real])
            found[-1] = Recipe(set.update, (None, both), is_mutation=True)
        else:
            found.append(change)
    return found


def _adds_items(change: Recipe) -> bool:
    if change.operation is not set.update or len(change.operands) != 2:
        return False
    added = change.operands[1]
    return isinstance(added, Items) and isinstance(added.real, list)


def _recipe(operand: SetVariable | Items) -> Recipe | Items:
    return operand.recipe if isinstance(operand, SetVariable) else operand


_KEYS: type = type(dict[Any, Any]().keys())
_ITEMS: type = type(dict[Any, Any]().items())


def _keys_view(keys: Any) -> Any:
    return dict.fromkeys(keys).keys()


def _items_view(pairs: Any) -> Any:
    return dict(pairs).items()


def _view_operand(tx: Translator, other: VariableTracker) -> SetVariable | Items:
    if isinstance(other, DictViewVariable) and other.kind != "values":
        trackers = other.elements(tx)
        real = [key_of(tx, each) for each in trackers]
        return Items(tuple(trackers), _keys_view(real) if other.kind == "keys" else _items_view(real))
    return operand_of(tx, other)


def combine_views(tx: Translator, symbol: str, left: VariableTracker, right: VariableTracker) -> SetVariable:
    """``left symbol right``, one of which is a dict's view of keys or items."""
    operands = (_view_operand(tx, left), _view_operand(tx, right))
    return SetVariable.empty().combined(SET_OPERATORS[symbol], operands, set)


SET_OPERATORS = {symbol: BINARY[symbol] for symbol in "&|-^"}
_IN_PLACE = {
    "&": set.intersection_update,
    "|": set.update,
    "-": set.difference_update,
    "^": set.symmetric_difference_update,
}


def _methods() -> None:
    """Define the models of the methods that return a new set."""
    for name in ("union", "intersection", "difference"):

        def combine(self: Any, tx: Translator, *others: VariableTracker, name: str = name) -> VariableTracker:
            return self._combine(tx, getattr(self.cls, name), *others)

        setattr(SetVariable, "method_" + name, combine)


_methods()


class SetIterator(IteratorVariable):
    """An iterator over a set. It raises RuntimeError, as CPython's does, if the set's size has changed."""

    __slots__ = ("of", "order", "at", "recipe")

    def __init__(self, of: SetVariable, order: list[Any]) -> None:
        self.source = None
        self.recipe = of.recipe
        self.of = of
        self.order = order
        self.at = 0

    def python_type(self) -> type:
        return type(iter(set()))

    def next(self, tx: Translator) -> VariableTracker:
        if len(self.of.items) != len(self.order):
            tx.raise_error(RuntimeError, "Set changed size during iteration")
        if self.at >= len(self.order):
            raise Exhausted
        key = self.order[self.at]
        if self.of.recipe is not self.recipe and self.of.order(tx) != self.order:
            unsupported(ChangedDuringIteration(self.of.describe()))
        self.at += 1
        return self.of.items[key].realize()

    def reconstruct(self, cg: Codegen) -> None:
        if self.of.recipe is not self.recipe:
            raise NotConstant("an iterator over a set that was mutated since")

        def make() -> None:
            cg.call(iter, [lambda: cg.load(self.of)])

        cg.call(advance_iterator, [make, lambda: cg.load_const(self.at)])


def set_of_constants(attempt: Attempt, value: Any) -> SetVariable:
    """The tracker of a set of constants that was computed while tracing."""
    items = {item: attempt.values.make(item) for item in value}
    if type(value) is frozenset:
        return SetVariable(items, frozenset, value, Recipe(None, (value,)))
    table = set(value)
    recipe = Recipe(set, (Recipe(None, (frozenset(value),)),))
    return SetVariable(items, set, table if list(table) == list(value) else None, recipe)


@wraps_type(set, frozenset)
def _wrap_set(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    if source.kind == "const" and type(value) is frozenset:
        return set_of_constants(attempt, value)
    if source.kind != "const":
        source.check("type", type(value))
    if not all(map(has_stable_hash, value)):
        return attempt.values.opaque(
            value, source, "it has items other than numbers, strings, classes and enum members"
        )
    items = {item: attempt.values.make(item) for item in value}
    attempt.values.addresses.note(tuple(items))
    if source.kind != "const":
        source.check("set_items", frozenset(value))
    return SetVariable(items, type(value), None, Recipe(None, (source,)), source, value)
