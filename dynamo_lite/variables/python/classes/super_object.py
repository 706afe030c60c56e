"""``super()``: attribute lookup that starts behind a class in the MRO."""

from __future__ import annotations

import types
from typing import Any

from dynamo_lite.insight.break_reasons import FailsInPython, UnsupportedAttribute, UnsupportedOperation
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.identity import identity
from dynamo_lite.variables.core.attributes import MISSING, BuiltinMethodVariable, bind
from dynamo_lite.variables.core.base import Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import is_immutable, mro, own_namespace
from dynamo_lite.variables.core.registry import models

from .classes import ClassVariable


class SuperVariable(VariableTracker):
    """``super(cls, receiver)``."""

    __slots__ = ("cls", "receiver")
    receiver: VariableTracker
    exact_type = super

    def __init__(self, cls: type, receiver: VariableTracker) -> None:
        self.source = None
        self.cls = cls
        self.receiver = receiver

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.make(super)
        kind, by_class = self.receiver.python_type(), False
        if isinstance(self.receiver, ClassVariable) and self.cls in mro(self.receiver.value):
            kind, by_class = self.receiver.value, True
        bases = mro(kind)
        if self.cls not in bases:
            unsupported(UnsupportedAttribute("super()", name, "the object's __class__ isn't its type"))
        first = bases.index(self.cls)
        for at, base in enumerate(bases[first:], first):
            if not is_immutable(kind):
                tx.guards.const(kind).child("c_attr", "__mro__").child("tuple_item", at).check("id", base)
            raw = own_namespace(base).get(name, MISSING) if at > first else MISSING
            written = tx.attempt.values.written_classes.get(identity(base)) if at > first else None
            found = None if written is None else written.instance_get(tx, name)
            if found is not None:
                return found
            if raw is not MISSING:
                return self._bind(tx, raw, name, base, kind, by_class)
            if at > first and not is_immutable(base):
                tx.guards.const(base).child("instance_dict").check("dict_lacks", name)
        tx.raise_error(AttributeError, f"'super' object has no attribute {name!r}")

    def _bind(self, tx: Translator, raw: Any, name: str, base: type, kind: type, by_class: bool) -> VariableTracker:
        if issubclass(type(raw), staticmethod) and name == "__new__" or raw is object.__new__:
            return tx.make(raw.__func__ if issubclass(type(raw), staticmethod) else raw)
        if type(raw) is types.ClassMethodDescriptorType:
            return BuiltinMethodVariable(self.receiver if by_class else tx.make(kind), name, raw)
        if by_class:
            return bind(tx, raw, name, None, kind, base)
        attribute = bind(tx, raw, name, self.receiver, kind, base)
        if type(attribute) is BuiltinMethodVariable and attribute.receiver is self.receiver:
            attribute.raw = raw
        return attribute

    def construct(self, plan: Planner) -> Value:
        return plan.call(super, plan.constant(self.cls), self.receiver)


@models(super)
def _super(
    tx: Translator, cls: VariableTracker | None = None, receiver: VariableTracker | None = None
) -> VariableTracker:
    if cls is None:
        cell = tx.cells.get("__class__")
        first = tx.code.co_varnames[0] if tx.code.co_argcount else ""
        argument = tx.cells[first].content if first in tx.cells else tx.locals.get(first)
        if cell is None or cell.content is None or argument is None:
            unsupported(FailsInPython("super()", "its function is no method, or has deleted its first argument"))
        cls, receiver = cell.content.realize(), argument.realize()
    if not isinstance(cls, ClassVariable) or receiver is None:
        unsupported(UnsupportedOperation("super()", "these arguments"))
    return SuperVariable(cls.value, receiver)
