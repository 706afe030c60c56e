"""Constants: immutable values that are known while tracing (numbers, strings, ranges, dtypes, devices)."""

from __future__ import annotations

import builtins
import functools
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.insight.value_text import value_text
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.polyfills.recreation import advance_iterator

from .base import (
    Args,
    Attempt,
    Exhausted,
    Kwargs,
    NotConstant,
    ObservedException,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from .base_kinds import InvariantVariable, IteratorVariable
from .class_lookup import MISSING, class_lookup, is_immutable
from .inert import is_inert
from .operator_symbols import method_of
from .wrapping import wraps_type

_NUMBERS = (int, float, bool)
_SINGLETONS = (
    *(type(None), type(Ellipsis), type(NotImplemented), type(getattr(functools, "Placeholder", None))),
    *(torch.dtype, torch.layout, torch.memory_format),
)
_OTHERS = (str, bytes, complex, range, torch.device, torch.finfo, torch.iinfo)
CONSTANT_TYPES: tuple[type, ...] = (*_NUMBERS, *_SINGLETONS, *_OTHERS)


class ConstantVariable(InvariantVariable):
    """A value of one of `CONSTANT_TYPES`, guarded by type and value where it has a source."""

    __slots__ = ()

    def is_constant(self) -> bool:
        return True

    def as_fx(self) -> tuple[Any, Any]:
        return self.value, self.value

    def key(self) -> Any:
        if self.value != self.value:
            raise NotConstant("NaN compares by identity as a key")
        return self.value

    def identity(self) -> Any:
        kind = type(self.value)
        if kind in _SINGLETONS or kind is bool:
            return self.value
        return self

    def describe(self) -> str:
        return value_text(self.value)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        kind = type(self.value)  # an alias passes reads on to its class
        is_type = kind is types.UnionType or kind is types.GenericAlias and is_immutable(self.value.__origin__)
        found = (tx.evaluate if is_type else tx.fold)(getattr, (self.value, name))
        if callable(found) and not isinstance(found, type):
            return tx.generic_getattr(self, name)
        if type(found) is tuple:  # the constant holds it: each read returns the same object
            return tx.attempt.values.wrap(found, tx.guards.const(found))
        return tx.make(found)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "format" and type(self.value) is str and not _have_known_attributes(tx, [*args, *kwargs.values()]):
            return tx.format_text(self.value, args, kwargs)
        if name == "format_map" and type(self.value) is str and len(args) == 1 and not kwargs:
            if not tx.is_plain(args[0].realize()):
                return tx.format_by_mapping(self.value, args[0].realize())
        if name == "__mod__" and type(self.value) is str and len(args) == 1 and not kwargs:
            return self.binary(tx, "%", args[0].realize()) or tx.make(NotImplemented)
        if name == "__iter__":
            return super().call_method(tx, name, args, kwargs)
        if name == "join" and type(self.value) is str and len(args) == 1 and not kwargs:
            tx.check_iterable(args[0], "can only join an iterable")
            return tx.join_texts(self.value, args[0].realize())
        if name not in _IMPURE:
            values = [tx.python_value(arg) for arg in args]
            named = {key: tx.python_value(arg) for key, arg in kwargs.items()}
            raw = class_lookup(type(self.value), name)
            if isinstance(raw, types.MethodDescriptorType):  # as CPython calls a method, with the same errors
                return tx.make(tx.fold(raw, [self.value, *values], named))
            return tx.make(tx.fold(tx.fold(getattr, (self.value, name)), values, named))
        unsupported(UnsupportedOperation(f"{name}()", self.describe()))

    @property
    def operand(self) -> Any:
        return self.value if type(self.value) in _NUMBERS else None

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        """``%`` of a string, whose right operand may be anything, ``+`` with a string that isn't a constant, ``*``
        with any index, and operators with the value of an instance of a derived class."""
        if symbol == "+" and not reflected and not isinstance(other, ConstantVariable):
            if type(self.value) is other.python_type() is str:
                return other.binary(tx, symbol, self, True)
        if symbol == "%" and not reflected and isinstance(self.value, (str, bytes)):
            if isinstance(self.value, str) and not tx.is_plain(other):
                return tx.percent(self.value, other)
            return tx.make(tx.fold(operator.mod, (self.value, tx.python_value(other))))
        if symbol == "*" and isinstance(self.value, (str, bytes)) and tx.is_index(other):
            other = ConstantVariable(tx.index_value(other))
        return self._fold_method(tx, method_of(symbol, "r" if reflected else ""), other)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self._fold_method(tx, method_of(symbol), other)

    def _fold_method(self, tx: Translator, name: str, *others: VariableTracker) -> VariableTracker | None:
        """The result of the type's special method on constants, or on the values of instances of derived classes; None
        if it refuses them: the error names the operands' classes."""
        values = [each.builtin_part() for each in others]
        raw = class_lookup(type(self.value), name)
        if raw is MISSING or not all(isinstance(each, ConstantVariable) for each in values):
            return None
        try:
            return unless_refused(tx.make(tx.fold(raw, [self.value, *(each.value for each in values)])))
        except ObservedException as observed:
            if not issubclass(observed.error.python_type(), TypeError):
                raise
            return None

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        if isinstance(self.value, (str, bytes, range)) and not key.is_constant():
            key = ConstantVariable(tx.subscript_value(key, _INDEX_ERRORS[type(self.value)]))
        return tx.make(tx.fold(operator.getitem, (self.value, tx.python_value(key))))

    def iterate(self, tx: Translator) -> VariableTracker:
        return ConstantIterator(tx.fold(iter, (self.value,)), self.value)

    def reverse(self, tx: Translator) -> VariableTracker:
        return ConstantIterator(tx.fold(reversed, (self.value,)), self.value, reversed)

    def length(self, tx: Translator) -> int:
        return tx.fold(len, (self.value,))

    def truth(self, tx: Translator) -> bool:
        return tx.fold(bool, (self.value,))

    def new_instance(self, plan: Planner, base: type, cls: type) -> Value:
        return plan.call(base.__new__, plan.constant(cls), self)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return tx.fold(lambda value, other: other in value, (self.value, tx.python_value(item)))


def _have_known_attributes(tx: Translator, values: Args) -> bool:
    """Whether reading attributes of the values, as ``str.format`` may, runs no user code."""
    return all(tx.is_plain(each) and is_inert(tx.python_value(each), with_classes=False) for each in values)


def unless_refused(result: VariableTracker | None) -> VariableTracker | None:
    """The result of an operator's special method; None if it is ``NotImplemented``."""
    if isinstance(result, ConstantVariable) and result.value is NotImplemented:
        return None
    return result


_INDEX_ERRORS = {
    str: "string indices must be integers, not '{}'",
    bytes: "byte indices must be integers or slices, not {}",
    range: "range indices must be integers or slices, not {}",
}
_IMPURE = frozenset(
    {"__init__", "__setattr__", "__delattr__", "__getattribute__", "__reduce_ex__", "__init_subclass__"}
    | {"__enter__", "__exit__"}
)


class ConstantIterator(IteratorVariable):
    """An iterator over a constant: the characters of a string, the numbers of a range."""

    __slots__ = ("iterator", "of", "function", "count")

    def __init__(self, iterator: Iterator[Any], of: Any, function: Callable[[Any], Iterator[Any]] = iter) -> None:
        self.source = None
        self.iterator = iterator
        self.of = of
        self.function = function
        """`iter` or `reversed`."""
        self.count = 0
        """How many items were taken."""

    def python_type(self) -> type:
        return type(self.iterator)

    def next(self, tx: Translator) -> VariableTracker:
        try:
            value = builtins.next(self.iterator)
        except StopIteration:
            raise Exhausted from None
        self.count += 1
        return ConstantVariable(value)

    def construct(self, plan: Planner) -> Value:
        if not isinstance(self.of, (str, bytes, range)):
            raise NotConstant("an iterator over a constant of another type")
        # Not an iterator over the rest: its type depends on the whole string, on whether all characters are ASCII.
        created = plan.call(self.function, plan.constant(self.of))
        return plan.call(advance_iterator, created, plan.constant(self.count))


@wraps_type(bool, *_SINGLETONS, *_OTHERS)
def wrap_constant(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    """A constant, guarded by identity if its type has few objects, otherwise by value."""
    source.check("id" if type(value) in _SINGLETONS else "equals", value)
    return ConstantVariable(value, source)


wraps_type(types.UnionType, types.GenericAlias)(ConstantVariable.by_identity)
