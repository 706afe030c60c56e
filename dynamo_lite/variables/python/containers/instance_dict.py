"""``__dict__`` of instances, functions and modules, and ``globals()``."""

from __future__ import annotations

import types
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.plan.rows import Attribute, Value
from dynamo_lite.sources.identity import identity
from dynamo_lite.variables.core.base import Attempt, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import class_lookup
from dynamo_lite.variables.core.invariant_reads import is_read_later, refuse_read
from dynamo_lite.variables.core.keys import key_of

from .mappings import DictVariable, wrap_dict_items


class InstanceDictVariable(DictVariable):
    """``obj.__dict__``. Reads and writes are those of the attributes of the object, ``of``."""

    __slots__ = ("of", "attempt")

    def __init__(self, of: Any, attempt: Attempt) -> None:
        self.source = of.source.child("instance_dict") if of.source is not None else None
        self.of = of
        self.attempt = attempt
        self.keys = {}
        self.cls = dict

    def __getattr__(self, name: str) -> Any:
        if name != "items":
            raise AttributeError(name)
        return self.snapshot().items

    def snapshot(self) -> DictVariable:
        """The items at this moment, in a dict of their own. Their keys are guarded."""
        found: DictVariable = self.of.namespace(self.attempt)
        return found

    def identity(self) -> Any:
        return (InstanceDictVariable, self.of)

    def describe(self) -> str:
        return "an object's __dict__"

    @property
    def mutated_object(self) -> Any:
        return self.of

    def _name(self, raw: object) -> str:
        if type(raw) is not str:
            unsupported(UnsupportedOperation("indexing by a key that is not a string", "an object's __dict__"))
        self._check_is_no_slot(raw)
        return raw

    def _check_is_no_slot(self, name: str) -> None:
        """Trackers keep one value a name, so where a class has a slot of that name the graph breaks."""
        if issubclass(type(class_lookup(self.of.python_type(), name)), types.MemberDescriptorType):
            unsupported(
                UnsupportedOperation(f"use of {name!r}, which is a slot of the class too,", "an object's __dict__")
            )

    def mapping_items(self, tx: Translator) -> DictVariable:
        return self.snapshot()

    def find(self, tx: Translator, key: VariableTracker) -> VariableTracker | None:
        found: VariableTracker | None = self.of.instance_get(tx, self._name(key_of(tx, key)))
        return found

    def assign(self, tx: Translator, raw: object, key: VariableTracker, value: VariableTracker) -> None:
        self.of.instance_set(tx, self._name(raw), value)

    def drop(self, tx: Translator, raw: object) -> VariableTracker:
        found: VariableTracker = self.of.instance_get(tx, self._name(raw))
        self.of.instance_delete(tx, raw)
        return found

    def construct(self, plan: Planner) -> Value:
        if class_lookup(self.of.python_type(), "__getattribute__") is object.__getattribute__:
            return Attribute(plan.value(self.of), "__dict__")
        # The program's own doesn't see it.
        return plan.call(object.__getattribute__, self.of, plan.constant("__dict__"))


class GlobalsVariable(InstanceDictVariable):
    """``globals()``, ``__globals__`` of a function and ``__dict__`` of a module. ``of``: their `GlobalScope`."""

    __slots__ = ()

    def __init__(self, scope: Any) -> None:
        super().__init__(scope, scope.attempt)
        self.source = None

    def _check_is_no_slot(self, name: str) -> None:
        """A namespace has no slots."""

    def snapshot(self) -> DictVariable:
        found = DictVariable(*wrap_dict_items(self.attempt, self.of.namespace, self.of.source))
        for name, value in self.of.writes.items():
            if value is None:
                found.items.pop(name, None)
            else:
                found.items[name] = value
        return found

    def construct(self, plan: Planner) -> Value:
        return plan.constant(self.of.namespace)


def globals_of(tx: Translator, scope: Any) -> VariableTracker:
    """The one tracker of a scope's dict, which aliases of the dict share."""
    if is_read_later(tx):
        refuse_read("globals()")
    _, known = tx.attempt.values.memo.setdefault(identity(scope.namespace), (scope.namespace, GlobalsVariable(scope)))
    if not isinstance(known, GlobalsVariable):
        unsupported(UnsupportedOperation("globals()", "a module whose namespace was read as a dict before"))
    return known
