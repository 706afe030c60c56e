"""Sets and frozensets: trackers under their keys, the order of iteration, and how to make the same set again.

A set's order depends on the operations that led to it. So each set keeps a real one of the same keys on which the same
operations are done (``table``), and a recipe of them (``made``), by which generated code makes the set again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import (
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
from dynamo_lite.variables.polyfills.carried import advance_iterator

from .mapping import DictVariable, DictViewVariable


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a set came to be. ``operation``: a method or function called on ``operands``: recipes, or items. None: it is
    empty (of class ``operands[0]``), or is what a source holds."""

    operation: Any
    operands: tuple[Any, ...]
    changes: bool = False
    """The operation changes its first operand and is called for that."""


@dataclass(frozen=True, eq=False)
class Items:
    """Items that are no set: a tuple of them, or a dict's keys. ``real``: the keys in a real container of that kind."""

    trackers: tuple[VariableTracker, ...]
    real: Any


def _order_known(keys: Any) -> bool:
    return all(map(has_stable_hash, keys))


def operand_kind(other: VariableTracker) -> VariableTracker:
    """The built-in container that an object of a derived class is."""
    payload = getattr(other, "payload", None)
    return other if payload is None else payload


def _real(operand: SetVariable | Items) -> Any:
    """Its keys in a real container."""
    if isinstance(operand, Items):
        return operand.real
    return operand.table if operand.table is not None else operand.cls(operand.items)


def _pairs(operand: SetVariable | Items) -> Iterable[tuple[Any, VariableTracker]]:
    return zip(operand.real, operand.trackers) if isinstance(operand, Items) else operand.items.items()


def operand_of(tx: Translator, other: VariableTracker) -> SetVariable | Items:
    """What a set is combined with."""
    inner = operand_kind(other)
    if isinstance(inner, SetVariable):
        return inner
    if isinstance(other, DictVariable) and other.cls is dict:
        trackers = tuple(other.key_variable(key) for key in other.items)
        return Items(trackers, dict.fromkeys(other.items))
    found = other.elements(tx)
    return Items(tuple(found), [key_of(tx, item) for item in found])


class SetVariable(VariableTracker):
    """A set or frozenset. ``items``: key -> the item's tracker. ``table``: None where the order isn't known."""

    __slots__ = ("items", "cls", "table", "made", "real", "was_empty")
    implements_equality = True

    def __init__(
        self,
        items: dict[Any, VariableTracker],
        cls: type,
        table: Any,
        made: Recipe,
        source: Source | None = None,
        real: Any = None,
    ) -> None:
        self.source = source
        self.items = items
        self.cls = cls
        self.table = table
        self.made = made
        self.was_empty = not items
        self.real = real
        """The set that was found at the source; None once it was changed inside."""

    @classmethod
    def empty(cls, kind: type = set) -> SetVariable:
        return cls({}, kind, kind(), Recipe(None, (kind,)))

    @classmethod
    def of(cls, tx: Translator, items: VariableTracker | list[VariableTracker], kind: type = set) -> SetVariable:
        """``kind(items)``."""
        if isinstance(items, SetVariable) and items.cls is kind is frozenset:
            return items
        if isinstance(items, list):
            operand: SetVariable | Items = Items(tuple(items), [key_of(tx, item) for item in items])
        else:
            operand = operand_of(tx, items)
        found = cls.empty(set)
        found._do(set.update, (operand,))
        return found if kind is set else found.result(frozenset, (found,), frozenset)

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

    def _parts(self, operands: tuple[SetVariable | Items, ...]) -> tuple[list[Any], Callable[[Any], VariableTracker]]:
        """The operands as real containers of keys, and what finds the tracker of one of these keys."""
        reals: list[Any] = []
        by_id: dict[int, tuple[Any, VariableTracker]] = {}
        """With the keys: a view of items makes them, and one that dies leaves its id to the next."""
        by_value: dict[Any, VariableTracker] = {}
        for each in operands:
            reals.append(_real(each))
            for key, tracker in _pairs(each):
                by_id.setdefault(id(key), (key, tracker))
                by_value.setdefault(key, tracker)
        return reals, lambda key: by_id[id(key)][1] if id(key) in by_id else by_value[key]

    def _known(self, operands: tuple[SetVariable | Items, ...]) -> bool:
        return all(
            each.table is not None if isinstance(each, SetVariable) else _order_known(each.real) for each in operands
        )

    def _add(self, tx: Translator, item: VariableTracker, key: Any) -> None:
        """What `_do` would with ``set.update``, for one item."""
        self.made = Recipe(set.update, (self.made, Items((item,), [key])), changes=True)
        self.items.setdefault(key, item)
        self.real = None
        if self.table is not None:
            if has_stable_hash(key):
                self.table.add(key)
            else:
                self.table = None

    def _do(self, operation: Any, operands: tuple[SetVariable | Items, ...]) -> Any:
        """Change this set by one of set's methods."""
        if operation is set.update:
            return self._update(operands)
        reals, tracker_of = self._parts((self, *operands))
        table = reals[0]
        returned = operation(table, *reals[1:])
        known = self._known((self, *operands))
        self.made = Recipe(operation, (self.made, *map(_recipe, operands)), changes=True)
        self.items = {key: tracker_of(key) for key in table}
        self.table = table if known else None
        self.real = None
        return returned

    def _update(self, operands: tuple[SetVariable | Items, ...]) -> None:
        """Of what was there before nothing need be looked at: programs gather in loops."""
        if self.table is not None and self._known(operands):
            self.table.update(*map(_real, operands))
        else:
            self.table = None
        self.made = Recipe(set.update, (self.made, *map(_recipe, operands)), changes=True)
        for each in operands:
            for key, tracker in list(_pairs(each)):
                self.items.setdefault(key, tracker)
        self.real = None

    def result(self, operation: Any, operands: tuple[SetVariable | Items, ...], kind: type) -> SetVariable:
        """A new set, of what a function of several makes."""
        reals, tracker_of = self._parts(operands)
        table = operation(*reals)
        made = Recipe(operation, tuple(map(_recipe, operands)))
        items = {key: tracker_of(key) for key in table}
        return SetVariable(items, kind, table if self._known(operands) else None, made)

    def _change(self, tx: Translator, operation: Any, *others: VariableTracker) -> VariableTracker:
        operands = tuple(operand_of(tx, other) for other in others)
        tx.effects.mutate(self)
        self._do(operation, operands)
        return ConstantVariable(None)

    def _combine(self, tx: Translator, operation: Any, *others: VariableTracker) -> VariableTracker:
        return self.result(operation, (self, *(operand_of(tx, other) for other in others)), self.cls)

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
                unsupported(UnsupportedOperation("iteration in a set's order", self.describe()))
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
        self._add(tx, item, key)
        return ConstantVariable(None)

    def method_discard(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        key = self._lookup(tx, item)
        if key in self.items:
            tx.effects.mutate(self)
            self._do(set.difference_update, (Items((self.items[key],), [key]),))
        return ConstantVariable(None)

    def _lookup(self, tx: Translator, item: VariableTracker) -> Any:
        """The key of what is looked for: a set as the frozenset of its items."""
        inner = operand_kind(item)
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
            unsupported(UnsupportedOperation("pop()", self.describe()))
        trackers = self.items
        tx.effects.mutate(self)
        return trackers[self._do(set.pop, ())]

    def method_update(self, tx: Translator, *others: VariableTracker) -> VariableTracker:
        for other in others:
            if isinstance(operand_kind(other), (SetVariable, DictVariable)):
                self._change(tx, set.update, other)
            else:
                for item in other.each(tx):
                    self.method_add(tx, item)
        return ConstantVariable(None)

    def method_intersection_update(self, tx: Translator, *others: VariableTracker) -> VariableTracker:
        return self._change(tx, set.intersection_update, *others)

    def method_difference_update(self, tx: Translator, *others: VariableTracker) -> VariableTracker:
        for other in others:  # one after the other: the next may be none
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

    def method___contains__(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(self.contains(tx, item))

    def method___len__(self, tx: Translator) -> VariableTracker:
        return ConstantVariable(len(self.items))

    def method___eq__(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return self.compare(tx, "==", other) or ConstantVariable(NotImplemented)

    def method___init__(self, tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
        if issubclass(self.cls, frozenset):  # it has object's, which leaves arguments to `__new__`
            return ConstantVariable(None)
        self._change(tx, set.clear)
        return ConstantVariable(None) if items is None else self._change(tx, set.update, items)

    # -- code ------------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: Codegen) -> None:
        if self.cls is frozenset:
            _emit(cg, self.made)
            return
        first, changes = _unrolled(self.made)
        if first.operation is None and first.operands[0] is set:
            cg.make_then_fill(self, lambda: cg.build("SET", 0), lambda cg: _replay_on_top(cg, changes))
        else:
            _emit(cg, self.made)

    def instance_names(self, tx: Translator) -> Iterable[str]:
        return ()

    def fill_instance(self, cg: Codegen, base: type) -> None:
        """Empty set (of a class that derives from set) on the stack: do to it what was done to this one."""
        _replay_on_top(cg, _unrolled(self.made)[1])

    def replay(self, cg: Codegen) -> None:
        changes = _unrolled(self.made)[1]
        if not self.items and self.was_empty:
            return
        cg.load_source(self.source)
        _replay_on_top(cg, changes)
        cg.pop_top()


def _unrolled(recipe: Recipe) -> tuple[Recipe, list[Recipe]]:
    """What the set was first, and the changes made to it since."""
    changes: list[Recipe] = []
    while recipe.changes:
        changes.append(recipe)
        recipe = recipe.operands[0]
    changes.reverse()
    return recipe, changes


def _replay_on_top(cg: Codegen, changes: list[Recipe]) -> None:
    for change in _together(changes):
        loads = [lambda each=each: _load_operand(cg, each) for each in change.operands[1:]]
        cg.call_with_top(change.operation, loads)


def _load_operand(cg: Codegen, operand: Any) -> None:
    if isinstance(operand, Recipe):
        _emit(cg, operand)
        return
    make = {dict: dict.fromkeys, _KEYS: _keys_view, _ITEMS: _items_view}.get(type(operand.real), tuple)
    cg.call(make, [lambda: cg.load_tuple(operand.trackers)])


def _emit(cg: Codegen, recipe: Recipe) -> None:
    """Make a set as it was when it had come to this point."""
    first, changes = _unrolled(recipe)
    if first.operation is not None:
        cg.call(first.operation, [lambda each=each: _load_operand(cg, each) for each in first.operands])
    else:
        _emit_first(cg, first.operands[0], bool(changes))
    _replay_on_top(cg, changes)


def _emit_first(cg: Codegen, where: Any, to_be_changed: bool) -> None:
    """``where``: a source, a class, or a frozenset."""
    if isinstance(where, Source):
        if to_be_changed or cg.attempt.effects.changed(where):
            raise NotConstant("a set that was changed since")
        cg.load_source(where)
    elif where is set:
        cg.build("SET", 0)
    else:
        cg.load_const(where if isinstance(where, frozenset) else where())


def _together(changes: list[Recipe]) -> list[Recipe]:
    """The same changes, items that are added one after the other at once."""
    found: list[Recipe] = []
    for change in changes:
        before = found[-1] if found else None
        if before is not None and _adds_items(before) and _adds_items(change):
            one, other = before.operands[1], change.operands[1]
            both = Items((*one.trackers, *other.trackers), [*one.real, *other.real])
            found[-1] = Recipe(set.update, (None, both), changes=True)
        else:
            found.append(change)
    return found


def _adds_items(change: Recipe) -> bool:
    if change.operation is not set.update or len(change.operands) != 2:
        return False
    added = change.operands[1]
    return isinstance(added, Items) and isinstance(added.real, list)


def _recipe(operand: SetVariable | Items) -> Any:
    return operand.made if isinstance(operand, SetVariable) else operand


_KEYS, _ITEMS = type({}.keys()), type({}.items())


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
    """A dict's keys or items combined with something, as the operators of views do it."""
    operands = (_view_operand(tx, left), _view_operand(tx, right))
    return SetVariable.empty().result(SET_OPERATORS[symbol], operands, set)


SET_OPERATORS = {symbol: BINARY[symbol] for symbol in "&|-^"}
_IN_PLACE = {
    "&": set.intersection_update,
    "|": set.update,
    "-": set.difference_update,
    "^": set.symmetric_difference_update,
}


def _methods() -> None:
    """One model a method that changes a set or makes one of several."""
    for name in ("union", "intersection", "difference"):

        def combine(self: Any, tx: Translator, *others: VariableTracker, name: str = name) -> VariableTracker:
            return self._combine(tx, getattr(self.cls, name), *others)

        setattr(SetVariable, "method_" + name, combine)


_methods()


class SetIterator(IteratorVariable):
    """An iterator over a set. A change of size while it runs is the RuntimeError that Python raises."""

    __slots__ = ("of", "order", "at", "made")

    def __init__(self, of: SetVariable, order: list[Any]) -> None:
        self.source = None
        self.made = of.made
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
        if self.of.made is not self.made and self.of.order(tx) != self.order:
            unsupported(UnsupportedOperation("changing the items during iteration", self.of.describe()))
        self.at += 1
        return self.of.items[key].realize()

    def reconstruct(self, cg: Codegen) -> None:
        if self.of.made is not self.made:
            raise NotConstant("an iterator over a set that changed")

        def make() -> None:
            cg.call(iter, [lambda: cg.load(self.of)])

        cg.call(advance_iterator, [make, lambda: cg.load_const(self.at)])


def set_of_constants(attempt: Attempt, value: Any) -> SetVariable:
    """The tracker of a set that was computed while tracing, of constants."""
    items = {item: attempt.values.make(item) for item in value}
    if type(value) is frozenset:
        return SetVariable(items, frozenset, value, Recipe(None, (value,)))
    table = set(value)
    made = Recipe(set, (Recipe(None, (frozenset(value),)),))
    return SetVariable(items, set, table if list(table) == list(value) else None, made)


@wraps_type(set, frozenset)
def _wrap_set(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    if source.kind == "const" and type(value) is frozenset:
        return set_of_constants(attempt, value)
    if source.kind != "const":
        source.check("type", type(value))
    if not all(map(has_stable_hash, value)):
        return attempt.values.opaque(value, source, "a set of other things than numbers, strings, classes and the like")
    items = {item: attempt.values.make(item) for item in value}
    attempt.values.addresses.note(tuple(items))
    if source.kind != "const":
        source.check("set_items", frozenset(value))
    return SetVariable(items, type(value), None, Recipe(None, (source,)), source, value)
