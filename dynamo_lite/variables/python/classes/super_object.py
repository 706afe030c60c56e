"""``super()``: attribute lookup that starts behind a class in the MRO."""

from __future__ import annotations

import types
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedOperation
from dynamo_lite.variables.core.attributes import MISSING, BuiltinMethodVariable, bind
from dynamo_lite.variables.core.base import VariableTracker, mro, own_namespace, unsupported
from dynamo_lite.variables.core.class_lookup import is_heap_type
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable

from .classes import ClassVariable


class SuperVariable(VariableTracker):
    """``super(cls, receiver)``."""

    __slots__ = ("cls", "receiver")
    receiver: VariableTracker

    def __init__(self, cls: type, receiver: VariableTracker) -> None:
        self.source = None
        self.cls = cls
        self.receiver = receiver

    def python_type(self) -> type:
        return super

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
            _guard_mro_item(tx, kind, at, base)
            raw = own_namespace(base).get(name, MISSING) if at > first else MISSING
            if raw is not MISSING:
                return self._bind(tx, raw, name, base, kind, by_class)
            if at > first:
                _guard_own_lacks(tx, base, name)
        tx.raise_error(AttributeError, f"'super' object has no attribute {name!r}")

    def _bind(self, tx: Translator, raw: Any, name: str, base: type, kind: type, by_class: bool) -> VariableTracker:
        if issubclass(type(raw), staticmethod) and name == "__new__" or raw is object.__new__:
            return tx.make(raw.__func__ if issubclass(type(raw), staticmethod) else raw)
        if type(raw) is types.ClassMethodDescriptorType:
            return BuiltinMethodVariable(self.receiver if by_class else tx.make(kind), name, raw)
        if by_class:
            return bind(tx, raw, name, None, kind, base)
        if issubclass(type(raw), types.WrapperDescriptorType) and isinstance(self.receiver, UserObjectVariable):
            return BuiltinMethodVariable(self.receiver, name, raw)
        attribute = bind(tx, raw, name, self.receiver, kind, base)
        if type(attribute) is BuiltinMethodVariable and attribute.receiver is self.receiver:
            attribute.raw = raw
        return attribute

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(super, [lambda: cg.load_const(self.cls), lambda: cg.load(self.receiver)])


def _guard_mro_item(tx: Translator, kind: type, at: int, base: type) -> None:
    if is_heap_type(kind):
        tx.guards.const(kind).child("c_attr", "__mro__").child("tuple_item", at).check("id", base)


def _guard_own_lacks(tx: Translator, base: type, name: str) -> None:
    if is_heap_type(base):
        tx.guards.const(base).child("instance_dict").check("dict_lacks", name)


@models(super)
def _super(
    tx: Translator, cls: VariableTracker | None = None, receiver: VariableTracker | None = None
) -> VariableTracker:
    if cls is None:
        if not tx.code.co_argcount:
            tx.raise_error(RuntimeError, "super(): no arguments")
        cell = tx.cells.get("__class__")
        if cell is None or cell.content is None:
            tx.raise_error(RuntimeError, "super(): __class__ cell not found")
        cls = cell.content.realize()
        first = tx.code.co_varnames[0]
        argument = tx.cells[first].content if first in tx.cells else tx.locals.get(first)
        if argument is None:
            tx.raise_error(RuntimeError, "super(): arg[0] deleted")
        receiver = argument.realize()
    if not isinstance(cls, ClassVariable) or receiver is None:
        unsupported(UnsupportedOperation("super()", "these arguments"))
    return SuperVariable(cls.value, receiver)
