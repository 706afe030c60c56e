"""Base classes of kinds of values: iterators, builtin containers, and values that guards keep the same."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source

from .base import Args, Attempt, Kwargs, Planner, Translator, VariableTracker, remaining_items
from .class_lookup import class_lookup, is_user_defined
from .operator_symbols import OPERATOR_METHODS


class IteratorVariable(VariableTracker):
    """Base of iterators: ``iter()`` of one is itself."""

    __slots__ = ()
    is_iterator = True

    def iterate(self, tx: Translator) -> VariableTracker:
        return self

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return any(tx.same_or_equal(each, item) for each in remaining_items(tx, self))


class ContainerVariable(VariableTracker):
    """Base of builtin containers: a call of a special method does the operation that it implements. If the other
    operand is an instance of a derived class, C code reads its items, whatever methods that class has.

    ``instance``: that of a derived class, created during tracing, whose payload it is; unset for other containers."""

    __slots__ = ("instance",)
    instance: VariableTracker
    implements_equality = True
    items: Sized
    """A list of the items' trackers, or a dict of them by key."""
    concatenates = False
    """Whether ``+`` and ``*`` are those of sequences: called by name they raise TypeError for operands of other types,
    and don't return ``NotImplemented``."""

    def describe(self) -> str:
        return f"a {self.python_type().__name__} of {len(self.items)}"

    def length(self, tx: Translator) -> Any:
        return len(self.items)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        operation = OPERATOR_METHODS.get(name)
        if operation is None or len(args) != 1 or kwargs:
            return super().call_method(tx, name, args, kwargs)
        symbol, prefix, is_comparison = operation
        other = args[0].realize()
        if is_comparison:
            found = self.compare(tx, symbol, other.builtin_part())
        elif prefix == "i":
            found = self.inplace(tx, symbol, other)
        else:
            found = self.binary(tx, symbol, other, prefix == "r")
        if found is None and self.concatenates and not is_comparison:
            tx.refuse_operands(f"{name}()", class_lookup(self.python_type(), name), self, other)
        return found or tx.make(NotImplemented)

    def method___len__(self, tx: Translator) -> VariableTracker:
        return tx.make(self.length(tx))

    def method___reversed__(self, tx: Translator) -> VariableTracker:
        return self.reverse(tx)

    def method___contains__(self, tx: Translator, item: VariableTracker) -> VariableTracker:
        return tx.make(self.contains(tx, item))

    def method___getitem__(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return self.getitem(tx, key)

    def method___setitem__(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> VariableTracker:
        self.setitem(tx, key, value)
        return tx.make(None)

    def method___delitem__(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        self.delitem(tx, key)
        return tx.make(None)


class InvariantVariable(VariableTracker):
    """A known value that guards keep the same in every call."""

    __slots__ = ("value",)

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.source = source
        self.value = value

    @classmethod
    def by_identity(cls, attempt: Attempt, value: object, source: Source) -> VariableTracker:
        """Wrap a value and guard its identity."""
        source.check("id", value)
        return cls(value, source)

    def python_type(self) -> type:
        return type(self.value)

    def as_constant(self) -> Any:
        return self.value

    def cache_key(self, tx: Translator) -> Any:
        kind = type(self.value)
        runs_python = any(is_user_defined(class_lookup(kind, name)) for name in ("__eq__", "__hash__"))
        return super().cache_key(tx) if runs_python else self.value

    def construct(self, plan: Planner) -> Value:
        return plan.constant(self.value)
