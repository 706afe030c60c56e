"""Lists, tuples, struct sequences, `torch.Size` and slices, and their iterators. Items are trackers in a real list."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import ChangedDuringIteration, UnsupportedOperation
from dynamo_lite.plan.rows import Extend, Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Exhausted,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.base_kinds import ContainerVariable, IteratorVariable
from dynamo_lite.variables.core.class_lookup import is_final, own_namespace
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.formatting import Texts, bracketed, listed, reprs
from dynamo_lite.variables.core.operator_symbols import COMPARE
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_if, wraps_type
from dynamo_lite.variables.polyfills.recreation import advance_iterator
from dynamo_lite.variables.python.containers.item_comparison import ItemComparison

_EXTENDED_BY_OWN_ITEMS = sys.version_info >= (3, 13)
"""Whether a list that is extended by itself doesn't call its ``__iter__``."""


def items_texts(tx: Translator, items: list[VariableTracker]) -> Texts:
    return listed([each] for each in reprs(tx, items))


class SequenceVariable(ContainerVariable):
    """Base of sequences. ``items``: trackers, perhaps lazy; ``kind``: the builtin class."""

    __slots__ = ("items",)
    kind: type = tuple
    real_kind: Any = tuple
    """The class in which `real` has the trackers: ``torch.Size`` takes none."""
    concatenates = True

    def __init__(self, items: list[VariableTracker], source: Source | None = None) -> None:
        self.source = source
        self.items: list[VariableTracker] = items

    def python_type(self) -> type:
        return self.kind

    def as_fx(self) -> tuple[Any, Any]:
        pairs = [item.realize().as_fx() for item in self.items]
        return self._build([pair[0] for pair in pairs]), self._build([pair[1] for pair in pairs])

    def _build(self, values: list[Any]) -> Any:
        return self.kind(values)

    def python_value(self, tx: Translator) -> Any:
        return self._build([tx.python_value(item) for item in self.items])

    def real_argument(self, leaf: Callable[[VariableTracker], Any]) -> Any:
        return self._build([item.realize().real_argument(leaf) for item in self.items])

    def overloaded_arguments(self) -> Iterable[VariableTracker]:
        return [each for item in self.items for each in item.realize().overloaded_arguments()]

    def is_plain(self, tx: Translator) -> bool:
        return all(map(tx.is_plain, self.items))

    def structure_items(self) -> Iterable[VariableTracker] | None:
        return self.items

    def with_structure_items(self, tx: Translator, new: Iterator[VariableTracker]) -> VariableTracker:
        return self.like(list(new))

    def each_with_length_hint(self, tx: Translator) -> Iterator[VariableTracker]:
        return iter(self.elements(tx))

    def elements(self, tx: Translator) -> list[VariableTracker]:
        return [item.realize() for item in self.items]

    def iterate(self, tx: Translator) -> VariableTracker:
        return ContainerIterator(tx, self, iter, iter(self.items))

    def reverse(self, tx: Translator) -> VariableTracker:
        return ContainerIterator(tx, self, reversed, reversed(self.items))

    def make(self, items: list[VariableTracker]) -> SequenceVariable:
        """A new sequence of the class that slicing and ``+`` return."""
        return type(self)(items)

    def like(self, items: list[VariableTracker]) -> SequenceVariable:
        """A new sequence of the same class."""
        return self.make(items)

    # -- methods in C: CPython runs them on a real container of trackers --------------------------------------------

    def real(self) -> Any:
        """The trackers in a container of `real_kind`. A mutable sequence keeps them in one."""
        return tuple(self.items)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in _METHODS and hasattr(self.real_kind, name) and not kwargs:
            return self.run(tx, name, *args)
        return super().call_method(tx, name, args, kwargs)

    def run(self, tx: Translator, name: str, *args: VariableTracker) -> VariableTracker:
        """Call a method of `_METHODS`. The traced program raises what CPython raises."""
        method, takes = getattr(self.real_kind, name), _METHODS[name]
        given = [convert(tx, arg.realize()) for convert, arg in zip((*takes, *(_item for _ in args)), args)]
        if takes[:1] == (_searched,):
            return self._search(tx, method, given)
        if name in _MUTATING:
            self._record_mutation(tx)
        return self._result(tx, method, *given)

    def _record_mutation(self, tx: Translator) -> None:
        tx.effects.mutate(self)

    def _result(self, tx: Translator, function: Callable[..., Any], *args: object) -> VariableTracker:
        """The result of a function on the real container: an item, a new sequence, or a number."""
        real = self.real()
        found = tx.evaluate(function, (real, *args))
        if isinstance(found, VariableTracker):
            return found
        if type(found) is not self.real_kind:
            return tx.make(found)
        is_self = found is real and self.python_type() is self.real_kind
        return self if is_self else self.make([*found])

    def _search(self, tx: Translator, method: Callable[..., Any], given: list[Any]) -> VariableTracker:
        """A method that compares items with its first argument, and may remove one."""
        comparison = ItemComparison(tx, self)
        real = self.real_kind(comparison.stand_ins(self.items))
        found = comparison.call(method, real, *comparison.stand_ins(given[:1]), *given[1:])
        if len(real) < len(self.items):
            self._record_mutation(tx)
            kept = [each.item for each in real]
            self.items.clear()
            self.items.extend(kept)
        return tx.make(found)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        index = _index(tx, key.realize())
        if type(index) is int and -len(self.items) <= index < len(self.items):
            return self.items[index]
        return self._result(tx, operator.getitem, index)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return tx.truth(self.run(tx, "__contains__", item))

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        theirs = other.builtin_part()
        if symbol == "+" and isinstance(theirs, SequenceVariable) and not reflected and self._is_compatible(theirs):
            is_theirs = not self.items and type(self) is type(other) is TupleVariable  # CPython returns it
            return theirs if is_theirs else self._result(tx, operator.add, theirs.real())
        if symbol == "*" and tx.is_index(other):
            return self._result(tx, operator.mul, tx.index_value(other))
        return None

    def _is_compatible(self, other: SequenceVariable) -> bool:
        """Whether ``self + other`` and comparisons with ``other`` are those of this class."""
        return issubclass(other.python_type(), self.kind)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SequenceVariable) or not self._is_compatible(other):
            return None
        comparison = ItemComparison(tx, self, other)
        operands = [self.real_kind(comparison.stand_ins(each.items)) for each in (self, other)]
        found = comparison.call(COMPARE[symbol], *operands)
        return found if isinstance(found, VariableTracker) else ConstantVariable(found)

    def method___init__(self, tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
        return ConstantVariable(None)


class TupleVariable(SequenceVariable):
    __slots__ = ()
    kind: type = tuple

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if symbol == "+" and isinstance(other, SizeVariable) and not reflected and _SIZES_ADD_REFLECTED:
            return None  # Size.__radd__ comes before the tuple's own concatenation
        return super().binary(tx, symbol, other, reflected)

    def as_constant(self) -> Any:
        return tuple(item.realize().as_constant() for item in self.items)

    def is_constant(self) -> bool:
        return all(item.realize().is_constant() for item in self.items)

    def cache_key(self, tx: Translator) -> Any:
        return tuple(item.realize().cache_key(tx) for item in self.items)

    def key(self) -> Any:
        return tuple(item.realize().key() for item in self.items)

    def as_index(self, tx: Translator) -> VariableTracker:
        indices = [item.realize() for item in self.items]
        found = [index.as_index(tx) for index in indices]
        return self if all(map(operator.is_, found, indices)) else TupleVariable(found)

    def number_as_key(self, tx: Translator) -> VariableTracker | None:
        numbers = [item.realize().number_as_key(tx) for item in self.items]
        if all(number is None for number in numbers):
            return None
        return TupleVariable([item if number is None else number for item, number in zip(self.items, numbers)])

    def guard_key(self, tx: Translator) -> None:
        for item in self.items:
            item.realize().guard_key(tx)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return bracketed(tx, self, "()", self._texts)

    def _texts(self, tx: Translator) -> Texts:
        return [*items_texts(tx, self.items), "," * (len(self.items) == 1)]

    def construct(self, plan: Planner) -> Value:
        return plan.tuple_of(self.items)

    def new_instance(self, plan: Planner, base: type, cls: type) -> Value:
        return plan.call(tuple.__new__, plan.constant(cls), plan.tuple_of(self.items))


_SIZES_ADD_REFLECTED = "__radd__" in vars(torch.Size)


class SizeVariable(TupleVariable):
    """`torch.Size`. Its items are integers, constant or symbolic."""

    __slots__ = ()
    kind: type = torch.Size

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        other = other.builtin_part()
        if symbol != "+" or not isinstance(other, TupleVariable):
            return super().binary(tx, symbol, other, reflected)
        if not all(issubclass(item.realize().python_type(), int) for item in other.items):
            unsupported(UnsupportedOperation("`+`", "a torch.Size and a tuple with items that aren't integers"))
        if not reflected:
            return SizeVariable(self.items + other.items)
        return SizeVariable(other.items + self.items) if _SIZES_ADD_REFLECTED else None

    def as_fx(self) -> tuple[Any, Any]:
        pairs = [item.realize().as_fx() for item in self.items]
        arguments = tuple(pair[0] for pair in pairs)
        has_node = any(isinstance(argument, torch.fx.Node) for argument in arguments)  # a Size can't hold one
        return arguments if has_node else torch.Size(arguments), torch.Size([pair[1] for pair in pairs])

    def _is_compatible(self, other: SequenceVariable) -> bool:
        return isinstance(other, TupleVariable)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return bracketed(tx, self, ("torch.Size([", "])"), lambda tx: items_texts(tx, self.items))

    def method_numel(self, tx: Translator) -> VariableTracker:
        found: VariableTracker = ConstantVariable(1)
        for item in self.items:
            found = tx.binary("*", found, item.realize())
        return found

    def construct(self, plan: Planner) -> Value:
        return plan.call(torch.Size, plan.tuple_of(self.items))


class StructSequenceVariable(TupleVariable):
    """An instance of a struct sequence (``torch.return_types``)."""

    __slots__ = ("cls",)
    cache_key = VariableTracker.cache_key
    text = VariableTracker.text

    def __init__(self, items: list[VariableTracker], cls: type, source: Source | None = None) -> None:
        super().__init__(items, source)
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def make(self, items: list[VariableTracker]) -> SequenceVariable:
        return TupleVariable(items)

    def like(self, items: list[VariableTracker]) -> SequenceVariable:
        return StructSequenceVariable(items, self.cls)

    def _build(self, values: list[Any]) -> Any:
        try:
            return self.cls(values)
        except TypeError:
            raise NotConstant(f"there is no second {self.cls.__name__}") from None

    def as_constant(self) -> Any:
        return self._build([item.realize().as_constant() for item in self.items])

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        fields: tuple[str, ...] = self.cls.__match_args__  # type: ignore[attr-defined]
        return self.items[fields.index(name)] if name in fields else tx.generic_getattr(self, name)

    def construct(self, plan: Planner) -> Value:
        return plan.call(self.cls, plan.tuple_of(self.items))


class MutableSequence(SequenceVariable):
    """What lists and deques have in common. Each mutation calls `_record_mutation` first."""

    __slots__ = ()

    def real(self) -> Any:
        return self.items

    def fill_instance(self, plan: Planner, instance: Value) -> None:
        plan.do(self.kind.extend, instance, plan.tuple_of(self.items))  # type: ignore[attr-defined]

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        index = _index(tx, key.realize())
        new: Any = value
        if isinstance(index, slice):
            if value is not self and not isinstance(value, SequenceVariable):
                tx.check_iterable(value, "can only assign an iterable")
            new = value.realize().elements(tx)
        self._record_mutation(tx)
        self._result(tx, operator.setitem, index, new)

    def delitem(self, tx: Translator, key: VariableTracker) -> None:
        index = _index(tx, key.realize())
        self._record_mutation(tx)
        self._result(tx, operator.delitem, index)

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol == "+":
            self.method_extend(tx, other)
            return self
        if symbol == "*" and tx.is_index(other):
            count = tx.index_value(other)
            self._record_mutation(tx)
            return self._result(tx, operator.imul, count)
        return None

    def method_append(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        self._record_mutation(tx)
        self._add([item])
        return ConstantVariable(None)

    def method_extend(self, tx: Translator, items: VariableTracker) -> VariableTracker:
        self._record_mutation(tx)
        if isinstance(items, SequenceVariable):
            self._add(list(items.items))
        elif items.payload is self:
            self._add(list(self.items if self.kind is list and _EXTENDED_BY_OWN_ITEMS else items.each(tx)))
        else:
            for item in items.each_with_length_hint(tx) if self.kind is list else items.each(tx):
                self._add([item])
        return ConstantVariable(None)

    def _add(self, items: list[VariableTracker]) -> None:
        self.items.extend(items)


class ListVariable(MutableSequence):
    __slots__ = ()
    kind = real_kind = list

    def make(self, items: list[VariableTracker]) -> SequenceVariable:
        return ListVariable(items)

    def as_index(self, tx: Translator) -> VariableTracker:
        """A list of integers selects the same items as a tensor of them."""
        items = [item.realize() for item in self.items]
        if not any(item.is_symbolic for item in items) or tx.attempt.torch_state.calls_torch_function:
            return self
        is_tensor = all(item.python_type() is int for item in items)
        return tx.call(tx.make(torch.tensor), [self], {}) if is_tensor else self

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return bracketed(tx, self, "[]", lambda tx: items_texts(tx, self.items))

    def method_sort(
        self, tx: Translator, *, key: VariableTracker | None = None, reverse: VariableTracker | None = None
    ) -> VariableTracker:
        """As in CPython, the list is empty while it is sorted."""
        self._record_mutation(tx)
        items = self.elements(tx)
        self.items.clear()
        try:
            tx.sort(items, key, reverse is not None and reverse.truth(tx))
            if self.items:
                tx.raise_error(ValueError, "list modified during sort")
        finally:
            self.items[:] = items
        return ConstantVariable(None)

    def method___init__(self, tx: Translator, items: VariableTracker | None = None) -> VariableTracker:
        self.run(tx, "clear")
        return ConstantVariable(None) if items is None else self.method_extend(tx, items)

    def construct(self, plan: Planner) -> Value:
        return plan.create(self, plan.build("LIST", []), partial(self._fill, plan))

    def _fill(self, plan: Planner, new: Value) -> None:
        if self.items:
            plan.steps.append(Extend(new, plan.tuple_of(self.items)))

    def replay(self, plan: Planner) -> None:
        """Replace the items of the list at the source by these, by list's own method: a class that derives from it may
        override that."""
        items = plan.build("LIST", self.items)
        plan.do(list.__setitem__, plan.reload(self.source), plan.constant(slice(None)), items)


_NO_SLICE_INDEX = "slice indices must be integers or None or have an __index__ method"


class SliceVariable(VariableTracker):
    """A slice. ``parts``: start, stop and step."""

    __slots__ = ("parts",)
    implements_equality = True
    exact_type = slice

    def __init__(self, parts: list[VariableTracker], source: Source | None = None) -> None:
        self.source = source
        self.parts = parts

    def is_plain(self, tx: Translator) -> bool:
        return all(map(tx.is_plain, self.parts))

    def as_constant(self) -> Any:
        return slice(*(part.realize().as_constant() for part in self.parts))

    def real_argument(self, leaf: Callable[[VariableTracker], Any]) -> Any:
        return slice(*(part.realize().real_argument(leaf) for part in self.parts))

    def as_fx(self) -> tuple[Any, Any]:
        pairs = [part.realize().as_fx() for part in self.parts]
        return slice(*(pair[0] for pair in pairs)), slice(*(pair[1] for pair in pairs))

    def as_index(self, tx: Translator) -> VariableTracker:
        parts = [part.realize() for part in self.parts]
        found = [part.as_index(tx) for part in parts]
        return self if all(map(operator.is_, found, parts)) else SliceVariable(found)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in ("start", "stop", "step"):
            return self.parts[("start", "stop", "step").index(name)]
        return super().getattr(tx, name)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SliceVariable):
            return None
        return TupleVariable(self.parts).compare(tx, symbol, TupleVariable(other.parts))

    def real_slice(self, tx: Translator) -> slice:
        """The slice, whose bounds are constant."""
        bounds = [bound.realize() for bound in self.parts]
        value = slice(*(None if tx.is_none(each) else tx.index_value(each, _NO_SLICE_INDEX) for each in bounds))
        if value.step == 0:
            tx.raise_error(ValueError, "slice step cannot be zero")
        return value

    def method_indices(self, tx: Translator, length: VariableTracker) -> VariableTracker:
        return tx.make(tx.fold(self.real_slice(tx).indices, (tx.index_value(length),)))

    def construct(self, plan: Planner) -> Value:
        return plan.build("SLICE", self.parts)


# -- what methods take -------------------------------------------------------------------------------------------------


def _item(tx: Translator, value: VariableTracker) -> Any:
    return value


def _searched(tx: Translator, value: VariableTracker) -> Any:
    return value


def _index(tx: Translator, value: VariableTracker) -> Any:
    """A number or slice; for another value one of its type, which CPython refuses."""
    if type(value) is ConstantVariable and type(value.value) is int:
        return value.value
    if isinstance(value, SliceVariable):
        return value.real_slice(tx)
    if tx.is_index(value):
        return tx.index_value(value)
    try:
        return value.sample_value()
    except NotConstant:
        unsupported(UnsupportedOperation("indexing", f"a sequence and {value.describe()}"))


_METHODS: dict[str, tuple[Callable[[Translator, VariableTracker], Any], ...]] = {
    **dict.fromkeys(("__contains__", "count", "remove"), (_searched,)),
    "index": (_searched, _index, _index),
    **dict.fromkeys(("__getitem__", "__delitem__", "pop", "rotate"), (_index,)),
    "insert": (_index, _item),
    **dict.fromkeys(("clear", "copy", "popleft", "reverse", "__copy__"), ()),
    "appendleft": (_item,),
}
"""Methods of lists, tuples and deques that CPython runs on real ones, and how each argument is passed on."""
_MUTATING = frozenset({"__delitem__", "pop", "rotate", "insert", "clear", "popleft", "reverse", "appendleft"})


class ContainerIterator(IteratorVariable):
    """``iter`` or ``reversed`` (``function``) of a list, tuple, deque or set, ``of``.

    ``real``: CPython's own iterator over the real container of trackers, which sees later mutations; ``at``: how many
    items it has given. ``is_copy``: it iterates over a copy, so the graph breaks if the container is mutated."""

    __slots__ = ("of", "function", "real", "at", "mutated_at", "is_copy")

    def __init__(
        self,
        tx: Translator,
        of: ContainerVariable,
        function: Callable[[Any], Iterator[Any]],
        real: Iterator[VariableTracker],
        is_copy: bool = False,
    ) -> None:
        self.source = None
        self.of = of
        self.function = function
        self.real = real
        self.at = 0
        self.mutated_at = tx.effects.last(of)
        self.is_copy = is_copy

    def python_type(self) -> type:
        kind = self.of.kind if isinstance(self.of, SequenceVariable) else self.of.python_type()
        return type(self.function(kind()))

    def next(self, tx: Translator) -> VariableTracker:
        if self.is_copy and tx.effects.last(self.of) != self.mutated_at:
            unsupported(ChangedDuringIteration(self.of.describe()))
        item: VariableTracker | None = tx.evaluate(next, (self.real, None))
        if item is None:
            raise Exhausted
        self.at += 1
        return item.realize()

    def construct(self, plan: Planner) -> Value:
        if isinstance(self.of, (ListVariable, TupleVariable)):
            state: tuple[Any, ...] = self.real.__reduce__()[2:]  # type: ignore[assignment]
            if not state:  # exhausted
                return plan.call(self.function, plan.call(self.of.kind))
            return plan.call(_iterate_from, plan.constant(self.function), self.of, plan.constant(state[0]))
        if plan.attempt.effects.last(self.of) != self.mutated_at:
            raise NotConstant("an iterator over a container that was mutated since")
        plan.replay_once(self.of)
        return plan.call(advance_iterator, plan.call(self.function, self.of), plan.constant(self.at))


def _iterate_from(function: Callable[[Any], Any], sequence: Any, at: int) -> Iterator[Any]:
    """``iter`` or ``reversed`` of a sequence, at a position. ``__setstate__`` clips it to the length, and generated
    code may fill the list later, so the list is extended for the call."""
    iterator = function(sequence)
    length = len(sequence)
    missing = at + (function is reversed) - length  # backwards, the position is that of the next item
    if missing > 0 and isinstance(sequence, list):
        list.extend(sequence, [None] * missing)
        iterator.__setstate__(at)
        del sequence[length:]
    else:
        iterator.__setstate__(at)
    return iterator


def wrap_items(attempt: Attempt, values: Sequence[object], source: Source, accessor: str) -> list[VariableTracker]:
    """Guard the number of items and wrap them lazily."""
    source.check("length", len(values))
    return [LazyVariable(attempt, value, source.child(accessor, at)) for at, value in enumerate(values)]


class ExistingListVariable(ListVariable):
    """A list that existed before the call. While the frame only appends to it, its length and items have no guards: a
    list that gathers results in every call doesn't recompile the frame."""

    __slots__ = ("attempt", "value", "added", "is_read")

    def __init__(self, attempt: Attempt, value: list[object], source: Source) -> None:
        self.source: Source = source
        self.attempt = attempt
        self.value = value
        self.added: list[VariableTracker] = []
        """Items that were appended before `items` was first read."""
        self.is_read = False

    def __getattr__(self, name: str) -> Any:
        """The first read of `items`: guards and wraps all of them."""
        if name != "items":
            raise AttributeError(name)
        added, self.added, self.is_read = self.added, [], True
        self.items = wrap_items(self.attempt, self.value, self.source, "list_item")
        self.attempt.effects.restate(self)
        self.items += added
        return self.items

    def _record_mutation(self, tx: Translator) -> None:
        if tx.effects.in_body and not self.is_read:
            _ = self.items  # a body's effects are undone, which needs the items
        super()._record_mutation(tx)

    def _add(self, items: list[VariableTracker]) -> None:
        (self.items if self.is_read else self.added).extend(items)

    def replay(self, plan: Planner) -> None:
        if self.is_read:
            return super().replay(plan)
        plan.steps.append(Extend(plan.reload(self.source), plan.tuple_of(self.added)))


@wraps_type(list)
def _wrap_list(attempt: Attempt, value: list[object], source: Source) -> VariableTracker:
    source.check("type", list)
    return ExistingListVariable(attempt, value, source)


@wraps_type(tuple, torch.Size)
def _wrap_tuple(attempt: Attempt, value: tuple[object, ...], source: Source) -> VariableTracker:
    source.check("type", type(value))
    kind = TupleVariable if type(value) is tuple else SizeVariable
    return kind(wrap_items(attempt, value, source, "tuple_item"), source)


_COUNTS = ("n_fields", "n_sequence_fields", "n_unnamed_fields")


def is_struct_sequence(cls: type) -> bool:
    """Whether a class is a ``PyStructSequence``, a tuple class in C with named items, all of whose fields are items."""
    if not is_final(cls) or not issubclass(cls, tuple):
        return False
    fields, items, unnamed = (own_namespace(cls).get(name) for name in _COUNTS)
    return type(fields) is int and fields == items and unnamed == 0


@wraps_if(lambda value: is_struct_sequence(type(value)), order=10)
def _wrap_struct_sequence(attempt: Attempt, value: tuple[object, ...], source: Source) -> VariableTracker:
    source.check("type", type(value))
    return StructSequenceVariable(wrap_items(attempt, value, source, "tuple_item"), type(value), source)


@wraps_type(slice)
def _wrap_slice(attempt: Attempt, value: slice, source: Source) -> VariableTracker:
    source.check("type", slice)
    parts: list[VariableTracker] = [
        LazyVariable(attempt, getattr(value, name), source.child("c_attr", name)) for name in ("start", "stop", "step")
    ]
    return SliceVariable(parts, source)
