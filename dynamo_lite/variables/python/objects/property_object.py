"""Objects of classes that derive from ``property``: what they were made of is known, the rest is as of any object."""

from __future__ import annotations

import types
from functools import partial
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    LazyVariable,
    VariableTracker,
    call_handler,
    unsupported,
    wraps_if,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.python.containers.mapping import DictVariable

from .user_object import UserObjectVariable

_PARTS = ("fget", "fset", "fdel")
_PLAIN_GETTERS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type(None))


class PropertyVariable(UserObjectVariable):
    """``parts``: the functions of one that ``property.__init__`` was called for inside."""

    __slots__ = ("parts",)

    def __init__(self, value: Any, cls: type, source: Source | None = None) -> None:
        super().__init__(value, cls, source)
        self.parts: dict[str, VariableTracker] | None = None

    def _part(self, tx: Translator, name: str) -> VariableTracker:
        if self.value is not None:
            assert self.source is not None
            raw = property.__dict__[name]
            if tx.lookup(self.cls, name) is not raw:
                unsupported(UnsupportedAttribute(self.describe(), name, "its class has another thing of that name"))
            return LazyVariable(tx.attempt, raw.__get__(self.value), self.source.child("c_attr", name))
        return (self.parts or {}).get(name) or ConstantVariable(None)

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        return self._part(tx, name) if raw is property.__dict__.get(name) else super().slot_get(tx, name, raw)

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if name == "__doc__" and self.value is None and name not in self.attrs:
            self._refuse(name)
        return super().instance_get(tx, name)

    def namespace(self, tx: Translator) -> DictVariable:
        if self.value is None:
            self._refuse("__dict__")
        return super().namespace(tx)

    def _refuse(self, name: str) -> None:
        unsupported(UnsupportedAttribute(self.describe(), name, "versions of Python differ in which doc it has"))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        handler = _METHODS.get(name)
        if handler is None:
            return super().call_method(tx, name, args, kwargs)
        return call_handler(handler, (self, tx, *args), kwargs, f"property.{name}")

    def _initialise(
        self, tx: Translator, fget: Any = None, fset: Any = None, fdel: Any = None, doc: Any = None
    ) -> VariableTracker:
        """``property.__init__``, which gives objects of derived classes the getter's doc as an attribute."""
        functions = [ConstantVariable(None) if each is None else each.realize() for each in (fget, fset, fdel)]
        plain = functions[0].python_type() in _PLAIN_GETTERS and self.cls.__dictoffset__
        plain = plain and tx.lookup(self.cls, "__setattr__") is object.__setattr__
        if self.value is not None or not plain or not (doc is None or tx.is_none(doc)):
            unsupported(UnsupportedOperation("property.__init__()", self.describe()))
        tx.effects.mutate(self)
        self.parts = dict(zip(_PARTS, functions))
        return ConstantVariable(None)

    def _call_part(self, tx: Translator, name: str, *args: VariableTracker) -> VariableTracker:
        function = self._part(tx, name).realize()
        if tx.is_none(function):
            unsupported(UnsupportedOperation(f"a property without {name}", self.describe()))
        return tx.call(function, list(args), {})

    def _get(self, tx: Translator, obj: VariableTracker, cls: VariableTracker | None = None) -> VariableTracker:
        return self if tx.is_none(obj) else self._call_part(tx, "fget", obj)

    def _set(self, tx: Translator, obj: VariableTracker, value: VariableTracker) -> VariableTracker:
        self._call_part(tx, "fset", obj, value)
        return ConstantVariable(None)

    def _delete(self, tx: Translator, obj: VariableTracker) -> VariableTracker:
        self._call_part(tx, "fdel", obj)
        return ConstantVariable(None)

    def reconstruct(self, cg: Codegen) -> None:
        def fill(cg: Codegen) -> None:
            if self.parts is not None:
                cg.call_with_top(property.__init__, [partial(cg.load, part) for part in self.parts.values()])
            self.store_attributes(cg)

        cg.make_then_fill(self, lambda: cg.call(property.__new__, [lambda: cg.load_const(self.cls)]), fill)


_METHODS: dict[str, Any] = {
    "__init__": PropertyVariable._initialise,
    "__get__": PropertyVariable._get,
    "__set__": PropertyVariable._set,
    "__delete__": PropertyVariable._delete,
    "__set_name__": lambda self, tx, cls, name: ConstantVariable(None),
}


@wraps_if(lambda value: issubclass(type(value), property) and type(value) is not property, order=8)
def _wrap_property_object(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    if source.kind != "const":
        source.check("type", type(value))
    return PropertyVariable(value, type(value), source)
