"""``__dict__`` of instances, functions and modules, and ``globals()``."""

from __future__ import annotations

import types
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.identity import identity
from dynamo_lite.variables.core.base import Args, ContainerVariable, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import class_lookup
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator

from .mappings import DictIterator, DictVariable, DictViewVariable, wrap_dict_items


class InstanceDictVariable(ContainerVariable):
    """``obj.__dict__``. Reads and writes are those of the attributes of the object, ``of``."""

    __slots__ = ("of",)
    exact_type = dict

    def __init__(self, of: Any) -> None:
        self.source = of.source.child("instance_dict") if of.source is not None else None
        self.of = of

    def identity(self) -> Any:
        return (InstanceDictVariable, self.of)

    def describe(self) -> str:
        return "an object's __dict__"

    def _name(self, key: VariableTracker) -> str:
        name = key.as_constant() if key.is_constant() else None
        if not isinstance(name, str):
            unsupported(UnsupportedOperation("indexing by a key that is not a string", "an object's __dict__"))
        self._check_is_no_slot(name)
        return name

    def _check_is_no_slot(self, name: str) -> None:
        """Trackers keep one value a name, so where a class has a slot of that name the graph breaks."""
        if issubclass(type(class_lookup(self.of.python_type(), name)), types.MemberDescriptorType):
            unsupported(
                UnsupportedOperation(f"use of {name!r}, which is a slot of the class too,", "an object's __dict__")
            )

    def mapping_items(self, tx: Translator) -> DictVariable:
        """The attributes as a dict of their own, whose keys are guarded."""
        return self.of.namespace(tx)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        found = self.of.instance_get(tx, self._name(key))
        if found is None:
            tx.raise_error(KeyError, self._name(key))
        return found

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        self.of.instance_set(tx, self._name(key), value)

    def delitem(self, tx: Translator, key: VariableTracker) -> None:
        self.method_pop(tx, key)

    def contains(self, tx: Translator, item: VariableTracker) -> bool:
        return self.of.instance_get(tx, self._name(item)) is not None

    def iterate(self, tx: Translator) -> VariableTracker:
        return DictIterator(tx, self, "keys")

    def reverse(self, tx: Translator) -> VariableTracker:
        return DictIterator(tx, self, "keys", is_reversed=True)

    def length(self, tx: Translator) -> int:
        return self.mapping_items(tx).length(tx)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("items", "keys", "values") and not (args or kwargs):
            return DictViewVariable(self, name)
        return super().call_method(tx, name, args, kwargs)

    def method_copy(self, tx: Translator) -> VariableTracker:
        return self.mapping_items(tx)

    def method_get(
        self, tx: Translator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        return self.of.instance_get(tx, self._name(key)) or default or ConstantVariable(None)

    def method_setdefault(
        self, tx: Translator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        if not self.contains(tx, key):
            self.setitem(tx, key, default or ConstantVariable(None))
        return self.getitem(tx, key)

    def method_clear(self, tx: Translator) -> VariableTracker:
        for name in self.mapping_items(tx).items:
            self.of.instance_delete(tx, name)
        return ConstantVariable(None)

    def method_popitem(self, tx: Translator) -> VariableTracker:
        found = self.mapping_items(tx).method_popitem(tx)
        self.delitem(tx, found.elements(tx)[0])
        return found

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self.mapping_items(tx).compare(tx, symbol, other)

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol != "|":
            return None
        self.method_update(tx, other)
        return self

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return self.mapping_items(tx).text(tx, name)

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        return None if reflected else self.mapping_items(tx).binary(tx, symbol, other, reflected)

    def method_pop(
        self, tx: Translator, key: VariableTracker, default: VariableTracker | None = None
    ) -> VariableTracker:
        found = self.method_get(tx, key, default) if default is not None else self.getitem(tx, key)
        if self.contains(tx, key):
            self.of.instance_delete(tx, self._name(key))
        return found

    def method_update(self, tx: Translator, /, *others: VariableTracker, **named: VariableTracker) -> VariableTracker:
        staged = DictVariable({})
        staged.method_update(tx, *others, **named)
        for name in staged.items:
            self._check_is_no_slot(name)
        for name, value in staged.items.items():
            self.of.instance_set(tx, name, value)
        return ConstantVariable(None)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load(self.of)
        cg.load_attr("__dict__")


class GlobalsVariable(InstanceDictVariable):
    """``globals()``, ``__globals__`` of a function and ``__dict__`` of a module. ``of``: their `GlobalScope`."""

    def __init__(self, scope: Any) -> None:
        self.source = None
        self.of = scope

    def _check_is_no_slot(self, name: str) -> None:
        """A namespace has no slots."""

    def mapping_items(self, tx: Translator) -> DictVariable:
        found = DictVariable(*wrap_dict_items(tx.attempt, self.of.namespace, self.of.source))
        for name, value in self.of.writes.items():
            if value is None:
                found.items.pop(name, None)
            else:
                found.items[name] = value
        return found

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.of.namespace)


def globals_of(tx: Translator, scope: Any) -> VariableTracker:
    """The one tracker of a scope's dict, which aliases of the dict share."""
    _, known = tx.attempt.values.memo.setdefault(identity(scope.namespace), (scope.namespace, GlobalsVariable(scope)))
    if not isinstance(known, GlobalsVariable):
        unsupported(UnsupportedOperation("globals()", "a module whose namespace was read as a dict before"))
    return known
