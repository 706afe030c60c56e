"""Dicts, their views and iterators: trackers in a real dict, under keys that hash and compare as the traced ones do."""

from __future__ import annotations

import gc
import operator
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

from dynamo_lite._C import stored_hashes
from dynamo_lite.insight.break_reasons import ChangedDuringIteration, UnsupportedKey, UnsupportedValue
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import object_setattr
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Exhausted,
    KnownMapping,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.base_kinds import ContainerVariable, IteratorVariable
from dynamo_lite.variables.core.c_arguments import raise_argument_error
from dynamo_lite.variables.core.class_lookup import class_compares_by_identity, is_immutable, namespace_dict
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.deferred_text import concatenated
from dynamo_lite.variables.core.formatting import Texts, bracketed, listed, reprs
from dynamo_lite.variables.core.keys import (
    AS_DICT_KEY,
    PLAIN_KEYS,
    check_hash_is_current,
    is_hashed_in_python,
    key_of,
    stored_key,
)
from dynamo_lite.variables.core.operator_symbols import COMPARE
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type
from dynamo_lite.variables.polyfills.recreation import advance_iterator
from dynamo_lite.variables.python.containers.item_comparison import ItemComparison

from .sequences import ListVariable, TupleVariable


class DictVariable(ContainerVariable):
    """A dict, or the items of an OrderedDict or defaultdict.

    ``items``: the values by their keys, as `key_of` represents them; ``keys``: the trackers of the keys that aren't
    constants."""

    __slots__ = ("items", "keys", "cls")

    def __init__(
        self,
        items: dict[Any, VariableTracker],
        keys: dict[Any, VariableTracker] | None = None,
        source: Source | None = None,
        cls: type[dict[Any, Any]] = dict,
    ) -> None:
        self.source = source
        self.items: dict[Any, VariableTracker] = items
        self.keys = keys if keys is not None else {}
        self.cls = cls

    def like(self, items: dict[Any, VariableTracker], keys: dict[Any, VariableTracker]) -> DictVariable:
        """A new dict of this class."""
        return DictVariable(items, keys, None, self.cls)

    def python_type(self) -> type:
        return self.cls

    def key_variable(self, key: object) -> VariableTracker:
        found = self.keys.get(key)
        return found if found is not None else ConstantVariable(key)

    def put(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        """Set an item without recording a mutation, in a dict that is being created."""
        self.store(key_of(tx, key, "" if self.cls is OrderedDict else AS_DICT_KEY), key, value)

    def store(self, raw: object, key: VariableTracker, value: VariableTracker) -> None:
        """`put` with the key's representation."""
        if raw not in self.items and not (type(raw) in PLAIN_KEYS and isinstance(key.realize(), ConstantVariable)):
            self.keys[raw] = key
        self.items[raw] = value

    def python_value(self, tx: Translator) -> Any:
        found = {tx.python_value(self.key_variable(key)): tx.python_value(value) for key, value in self.items.items()}
        made = self.cls()
        made.update(found)
        return made

    def is_plain(self, tx: Translator) -> bool:
        return not self.keys and all(map(tx.is_plain, self.items.values()))

    def structure_items(self) -> Iterable[VariableTracker] | None:
        return self.items.values()

    def with_structure_items(self, tx: Translator, new: Iterator[VariableTracker]) -> VariableTracker:
        result = self.like({}, {})
        for key, item in zip(self.items, new):
            result.put(tx, self.key_variable(key), item)
        return result

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return super().text(tx, name) if self.cls is not dict else bracketed(tx, self, "{}", self._texts)

    def _texts(self, tx: Translator) -> Texts:
        keys = reprs(tx, map(self.key_variable, self.items))
        return listed([key, ": ", value] for key, value in zip(keys, reprs(tx, self.items.values())))

    def find(self, tx: Translator, key: VariableTracker) -> VariableTracker | None:
        """The value of a key; None if the dict lacks it."""
        found = self.items.get(key_of(tx, key, AS_DICT_KEY))
        if found is None and self.source is not None:
            tx.guards.missing_key_dicts[self.source] = None
        return found

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return self.find(tx, item) is not None

    def iterate(self, tx: Translator) -> VariableTracker:
        return DictIterator(tx, DictViewVariable(self, "keys"), iter)

    def reverse(self, tx: Translator) -> VariableTracker:
        return DictIterator(tx, DictViewVariable(self, "keys"), reversed)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        found = self.find(tx, key)
        if found is None:
            tx.raise_with(KeyError, [key])
        return found

    def assign(self, tx: Translator, raw: object, key: VariableTracker, value: VariableTracker) -> None:
        """Set an item. ``raw``: the key's representation."""
        tx.effects.mutate(self)
        self.store(raw, key, value)

    def drop(self, tx: Translator, raw: object) -> VariableTracker:
        """Remove a key that the dict has; its value."""
        tx.effects.mutate(self)
        self.keys.pop(raw, None)
        return self.items.pop(raw)

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        self.assign(tx, key_of(tx, key, "" if self.cls is OrderedDict else AS_DICT_KEY), key, value)

    def delitem(self, tx: Translator, key: VariableTracker) -> None:
        self.method_pop(tx, key)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol not in ("==", "!=") or not isinstance(other, DictVariable):
            return None
        comparison = ItemComparison(tx, self, other)
        kind = OrderedDict if self.cls is other.cls is OrderedDict else dict
        sides = [kind(zip(each.items, comparison.stand_ins(each.items.values()))) for each in (self, other)]
        return ConstantVariable(comparison.call(COMPARE[symbol], *sides))

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if symbol != "|" or reflected or not issubclass(other.python_type(), dict):
            return None
        merged = self.copied()
        merged.method_update(tx, other)
        return merged

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol == "|":
            self.method_update(tx, other)
            return self
        return None

    # -- methods ---------------------------------------------------------------------------------------------------

    def method_get(
        self, tx: Translator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        return self.find(tx, key) or default or ConstantVariable(None)

    def method_setdefault(
        self, tx: Translator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        found = self.find(tx, key)
        if found is None:
            found = default or ConstantVariable(None)
            self.setitem(tx, key, found)
        return found

    def method_pop(
        self, tx: Translator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        if self.contains(tx, key):
            return self.drop(tx, key_of(tx, key, AS_DICT_KEY))
        if default is None:
            tx.raise_with(KeyError, [key])
        return default

    def method_popitem(self, tx: Translator, last: VariableTracker | None = None) -> VariableTracker:
        """CPython says which item that is, of a dict with the same keys. Only OrderedDict's takes an argument."""
        keys = self.cls()
        keys.update(self.items)
        raw, _ = tx.evaluate(self.cls.popitem, (keys,) if last is None else (keys, tx.truth(last)))
        return TupleVariable([self.key_variable(raw), self.drop(tx, raw)])

    def method_move_to_end(
        self, tx: Translator, key: VariableTracker, last: VariableTracker | None = None
    ) -> VariableTracker:
        raw = key_of(tx, key)
        if raw not in self.items:
            tx.raise_with(KeyError, [key])
        tx.effects.mutate(self)
        moved = OrderedDict(self.items)
        tx.evaluate(OrderedDict.move_to_end, (moved, raw, last is None or tx.truth(last)))
        self.items = dict(moved)
        return ConstantVariable(None)

    def method_update(
        self, tx: Translator, other: VariableTracker | None = None, /, **named: VariableTracker
    ) -> VariableTracker:
        mapping = None if other is None else self._items_to_merge(tx, other.realize())
        if mapping is not None:
            self.add_items(tx, mapping)
        elif other is not None:
            for at, each in enumerate(other.each(tx)):
                pair = each.realize()
                element = f"dictionary update sequence element #{at}"
                is_noted = sys.version_info >= (3, 14)  # a note has the rest
                text = "object is not iterable" if is_noted else f"cannot convert {element} to a sequence"
                tx.check_iterable(pair, text)
                items = pair.elements(tx)
                if len(items) != 2:
                    tx.raise_error(ValueError, f"{element} has length {len(items)}; 2 is required")
                self.setitem(tx, *items)
        for name, value in named.items():
            self.assign(tx, name, ConstantVariable(name), value)
        return ConstantVariable(None)

    def add_items(self, tx: Translator, mapping: KnownMapping) -> None:
        """Add a mapping's items, as ``update`` does."""
        for raw, value in mapping.items.copy().items():
            self.assign(tx, raw, mapping.key_variable(raw), value)

    def _items_to_merge(self, tx: Translator, other: VariableTracker) -> KnownMapping | None:
        """The items of a mapping that ``update`` or ``|`` adds; None for a value without ``keys``."""
        is_mapping = is_immutable(other.python_type()) or tx.has_attribute(other, "keys")
        return other.mapping_items(tx) if is_mapping else None

    def method_clear(self, tx: Translator) -> VariableTracker:
        for raw in [*self.items]:
            self.drop(tx, raw)
        return ConstantVariable(None)

    def method_copy(self, tx: Translator) -> DictVariable:
        return self.copied()

    def copied(self) -> DictVariable:
        return self.like(dict(self.items), dict(self.keys))

    def method_keys(self, tx: Translator) -> VariableTracker:
        return DictViewVariable(self, "keys")

    def method_values(self, tx: Translator) -> VariableTracker:
        return DictViewVariable(self, "values")

    def method_items(self, tx: Translator) -> VariableTracker:
        return DictViewVariable(self, "items")

    def method___init__(self, tx: Translator, /, *args: VariableTracker, **named: VariableTracker) -> VariableTracker:
        if len(args) > 1:
            raise_argument_error(tx, self.cls.__init__, 1 + len(args), named)
        return self.method_update(tx, *args, **named) if args or named else ConstantVariable(None)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        object_setattr(tx, self, name, value)

    # -- code ------------------------------------------------------------------------------------------------------

    @property
    def mutated_object(self) -> Any:
        """The object that a mutation is recorded for."""
        return self

    def mapping_items(self, tx: Translator) -> DictVariable:
        return self

    def fill_instance(self, plan: Planner, instance: Value) -> None:
        """By the builtin's own methods: the class of the instance may override them."""
        pairs = [(self.key_variable(raw), value) for raw, value in self.items.items()]
        for raw in self.items:
            check_hash_is_current(plan.attempt, raw)
        if pairs:
            items = plan.build("MAP", [part for pair in pairs for part in pair])
            plan.do(_update_ordered if self.cls is OrderedDict else dict.update, instance, items)

    def construct(self, plan: Planner) -> Value:
        new = plan.build("MAP", []) if self.cls is dict else plan.call(self.cls)
        return plan.create(self, new, partial(self.fill, plan))

    def fill(self, plan: Planner, new: Value) -> None:
        """Plan how the items get into the new, empty dict."""
        self.fill_instance(plan, new)

    def replay(self, plan: Planner) -> None:
        existing = plan.reload(self.source)
        plan.do(self.cls.clear, existing)
        self.fill_instance(plan, existing)


def _update_ordered(target: OrderedDict[Any, Any], items: dict[Any, Any]) -> None:
    for key, value in items.items():
        OrderedDict.__setitem__(target, key, value)


class MappingProxyVariable(VariableTracker):
    """A ``types.MappingProxyType``. Each operation is the mapping's, ``of``."""

    __slots__ = ("of",)
    exact_type = MappingProxyType
    implements_equality = True

    def __init__(self, of: VariableTracker, source: Source | None = None) -> None:
        self.source = source
        self.of = of

    def length(self, tx: Translator) -> Any:
        return self.of.length(tx)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return self.of.contains(tx, item)

    def iterate(self, tx: Translator) -> VariableTracker:
        return tx.iterate(self.of)

    def reverse(self, tx: Translator) -> VariableTracker:
        return self.of.reverse(tx)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return self.of.getitem(tx, key)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return tx.compare(symbol, self.of, other)

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if symbol != "|":
            return None
        theirs = other.of if isinstance(other, MappingProxyVariable) else other
        return tx.binary("|", *((theirs, self.of) if reflected else (self.of, theirs)))

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol == "|":
            tx.raise_error(TypeError, "'|=' is not supported by mappingproxy; use '|' instead")
        return None

    def text(self, tx: Translator, name: str) -> VariableTracker:
        text = self.of.text(tx, name)
        return concatenated(tx, ["mappingproxy(", text, ")"]) if name == "__repr__" else text

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(self.of.getattr(tx, name), args, kwargs)

    def construct(self, plan: Planner) -> Value:
        return plan.call(MappingProxyType, self.of)


class DictViewVariable(ContainerVariable):
    """``keys()``, ``values()`` or ``items()`` of a dict or an object's ``__dict__``. ``kind``: the method's name."""

    __slots__ = ("of", "kind")

    def __init__(self, of: DictVariable, kind: str, source: Source | None = None) -> None:
        self.source = source
        self.of = of
        self.kind = kind

    def describe(self) -> str:
        return f"{self.kind} of {self.of.describe()}"

    def python_type(self) -> type:
        return type(self.sample_value())

    def sample_value(self) -> Any:
        return getattr(self.of.python_type()(), self.kind)()

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        return MappingProxyVariable(self.of) if name == "mapping" else super().c_attribute(tx, name)

    def iterate(self, tx: Translator) -> VariableTracker:
        return DictIterator(tx, self, iter)

    def reverse(self, tx: Translator) -> VariableTracker:
        return DictIterator(tx, self, reversed)

    def length(self, tx: Translator) -> int:
        return self.of.length(tx)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        if self.kind == "keys":
            return self.of.contains(tx, item)
        if self.kind == "values":
            return any(tx.same_or_equal(each, item) for each in self.each(tx))
        pair = item.builtin_part()
        if not isinstance(pair, TupleVariable) or len(pair.items) != 2:
            return False
        found = self.of.mapping_items(tx).items.get(key_of(tx, pair.items[0]))
        return found is not None and tx.same_or_equal(found, pair.items[1])

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if self.kind == "values" or symbol not in "&|-^":
            return None
        pair = (other, self) if reflected else (self, other)
        return tx.combine_views(symbol, *pair)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """Views of keys and items compare with each other and with sets, by their lengths and `contains`."""
        is_view = isinstance(other, DictViewVariable) and other.kind != "values"
        if self.kind == "values" or not (is_view or issubclass(other.python_type(), (set, frozenset))):
            return None
        is_equality = symbol in ("==", "!=")
        fits = COMPARE["==" if is_equality else symbol](self.length(tx), other.length(tx))
        smaller, larger = (other, self) if symbol in (">", ">=") else (self, other)
        found = fits and all(larger.contains(tx, each) for each in smaller.in_any_order(tx))
        return ConstantVariable(found != (symbol == "!="))

    def method_isdisjoint(self, tx: Translator, other: VariableTracker) -> VariableTracker:
        return ConstantVariable(not any(self.contains(tx, each) for each in other.realize().in_any_order(tx)))

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return concatenated(
            tx, [self.python_type().__name__, "(", ListVariable(self.elements(tx)).text(tx, "__repr__"), ")"]
        )

    def construct(self, plan: Planner) -> Value:
        return plan.call(getattr(self.of.python_type(), self.kind), self.of)


class DictIterator(IteratorVariable):
    """``iter`` or ``reversed`` (``function``) of a dict's view. It raises RuntimeError, as CPython's does, if the size
    of the dict has changed. ``items``: the dict, or a copy of an object's ``__dict__``, renewed after side effects."""

    __slots__ = ("view", "function", "items", "order", "at", "checked_at")

    def __init__(self, tx: Translator, view: DictViewVariable, function: Callable[[Any], Iterator[Any]]) -> None:
        self.source = None
        self.view = view
        self.function = function
        self.items = view.of.mapping_items(tx)
        self.order = [*function(self.items.items)]
        self.at = 0
        self.checked_at = tx.effects.count
        """How many side effects there were when the keys were last compared with `order`."""

    def python_type(self) -> type:
        return type(self.function(self.view.sample_value()))

    def next(self, tx: Translator) -> VariableTracker:
        if self.checked_at != tx.effects.count:
            of = self.view.of
            self.items = of.mapping_items(tx)
            if self._has_changed:
                if len(self.items.items) == len(self.order) or issubclass(of.python_type(), OrderedDict):
                    unsupported(ChangedDuringIteration(of.describe()))
                tx.raise_error(RuntimeError, "dictionary changed size during iteration")
            self.checked_at = tx.effects.count
        if self.at >= len(self.order):
            raise Exhausted
        raw = self.order[self.at]
        self.at += 1
        if self.view.kind == "keys":
            return self.items.key_variable(raw)
        value = self.items.items[raw]
        return value.realize() if self.view.kind == "values" else TupleVariable([self.items.key_variable(raw), value])

    @property
    def _has_changed(self) -> bool:
        live = [*self.function(self.items.items)]
        return len(live) != len(self.order) or not all(map(operator.is_, live, self.order))

    def construct(self, plan: Planner) -> Value:
        is_outdated = self.items is not self.view.of and self.checked_at != plan.attempt.effects.count
        if is_outdated or self._has_changed:
            raise NotConstant("an iterator over a dict that may have changed")
        # An iterator that is created before the stores to its dict raises: the dict's size has changed.
        plan.replay_once(self.view.of.mutated_object)
        created = plan.call(self.function, self.view.construct(plan))
        return plan.call(advance_iterator, created, plan.constant(self.at))


def wrap_dict_items(attempt: Attempt, value: Any, source: Source) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Guard a dict's keys and wrap its values lazily. Returns ``items`` and ``keys`` of a `DictVariable`.

    Reads by the builtin's own methods, as the guards do: a subclass may override them. Where ``__hash__`` or ``__eq__``
    of keys are in Python, both are traced on the keys, whose attributes are guarded, not their identity. The hashes are
    those that the dict stores, without running user code."""
    order = tuple(dict.__iter__(value))
    values: Iterable[Any] = dict.values(value)
    hashes = stored_hashes(value) if any(map(is_hashed_in_python, order)) else ()
    if not hashes:
        if issubclass(type(value), OrderedDict):
            order = _order_of(value)
            values = [dict.__getitem__(value, key) for key in order]
        source.check("dict_keys", order)
    elif issubclass(type(value), OrderedDict):
        unsupported(UnsupportedKey("an object", "it is a key of an OrderedDict, and its __hash__ is written in Python"))
    else:
        source.check("length", len(order))
        source.check("key_hashes", hashes)
    found = DictVariable({})
    for position, (key, item) in enumerate(zip(order, values)):
        if not hashes and class_compares_by_identity(type(key)) and type(key) in PLAIN_KEYS:
            found.items[key] = LazyVariable(attempt, item, source.child("dict_item", key))
            if type(key) is int:
                attempt.values.addresses.note(key)
            continue
        variable = LazyVariable(attempt, key, source.child("dict_key", position)).realize()
        is_hashed = hashes and is_hashed_in_python(key)
        raw = stored_key(attempt, variable, hashes[position]) if is_hashed else attempt.values.key_of(variable)
        found.store(raw, variable, LazyVariable(attempt, item, source.child("dict_value", position)))
    if len(found.items) != len(order):
        unsupported(UnsupportedKey("an object", "it has come to equal another key of its dict"))
    return found.items, found.keys


def _order_of(value: OrderedDict[Any, Any]) -> tuple[Any, ...]:
    """The keys in order. Breaks the graph if a method of ``dict`` changed the items and left the order behind."""
    try:
        order = tuple(OrderedDict.__iter__(value))
    except (KeyError, RuntimeError):
        order = ()
    if {*map(id, order)} != {*map(id, dict.__iter__(value))}:
        unsupported(
            UnsupportedValue("an OrderedDict", "its items and its order disagree: a method of dict changed them")
        )
    return order


_VIEWS = {type(getattr(cls(), kind)()): kind for cls in (dict, OrderedDict) for kind in ("keys", "values", "items")}


@wraps_type(MappingProxyType, *_VIEWS)
def _wrap_view(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    """A proxy or view, by the dict behind it."""
    source.check("type", type(value))
    (mapping,) = gc.get_referents(value)
    if any(namespace_dict(each.value) is mapping for each in attempt.values.written_classes.values()):
        unsupported(UnsupportedValue("a class's __dict__", "attributes of the class are assigned in the same graph"))
    of = attempt.values.wrap(mapping, source.child("taken_from")) if type(mapping) in (dict, OrderedDict) else None
    items = None if of is None else of.builtin_part()
    if of is None or not isinstance(items, DictVariable):
        return attempt.values.opaque(value, source, "a view of a mapping other than a dict")
    kind = _VIEWS.get(type(value))
    return MappingProxyVariable(of, source) if kind is None else DictViewVariable(items, kind, source)
