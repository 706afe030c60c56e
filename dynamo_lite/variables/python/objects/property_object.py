"""Instances of classes that derive from ``property``, such as a library's own ``cached_property``."""

from __future__ import annotations

import types
from typing import Any

from dynamo_lite.insight.break_reasons import FailsInPython, UnsupportedAttribute, UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    LazyVariable,
    NotConstant,
    VariableTracker,
    call_handler,
    unsupported,
    wraps_if,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator

from .user_object import UserObjectVariable

_PLAIN_GETTERS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, type(None))


class CreatedPropertyVariable(UserObjectVariable):
    """A property created during tracing. torch.distributions creates them to test their class; only that is traced."""

    __slots__ = ("functions",)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        unsupported(UnsupportedAttribute(self.describe(), name, "the property is created in the compiled function"))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """``property.__init__``, which copies the getter's docstring, if that runs no user code."""
        getter = args[0].realize().python_type() if args else type(None)
        is_plain = getter in _PLAIN_GETTERS and self.cls.__dictoffset__ and len(args) < 4 and not kwargs
        if name != "__init__" or not is_plain or tx.lookup(self.cls, "__setattr__") is not object.__setattr__:
            unsupported(UnsupportedOperation(f"property.{name}()", self.describe()))
        tx.effects.mutate(self)
        self.functions = args
        return ConstantVariable(None)

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant(self.describe())


class PropertyVariable(UserObjectVariable):
    """A pre-existing property object."""

    __slots__ = ()

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if name not in ("fget", "fset", "fdel") or raw is not property.__dict__[name]:
            return super().slot_get(tx, name, raw)
        assert self.source is not None
        return LazyVariable(tx.attempt, raw.__get__(self.value), self.source.child("c_attr", name))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "__init__":
            unsupported(UnsupportedOperation("property.__init__()", self.describe()))
        if name != "__get__":
            return super().call_method(tx, name, args, kwargs)
        return call_handler(self._get, (tx, *args), kwargs, "property.__get__")

    def _get(self, tx: Translator, obj: VariableTracker, cls: VariableTracker | None = None) -> VariableTracker:
        """``property.__get__``, which calls the getter."""
        if tx.is_none(obj):
            return self
        raw = property.__dict__["fget"]
        if tx.lookup(self.cls, "fget") is not raw:
            unsupported(UnsupportedAttribute(self.describe(), "fget", "its class overrides that attribute of property"))
        getter = self.slot_get(tx, "fget", raw)
        if getter is None or tx.is_none(getter):
            unsupported(FailsInPython(f"access to {self.describe()}", "it has no fget"))
        return tx.call(getter.realize(), [obj], {})


@wraps_if(lambda value: issubclass(type(value), property) and type(value) is not property, order=8)
def _wrap_property_object(attempt: Attempt, value: property, source: Source) -> VariableTracker:
    source.check_type(value)
    return PropertyVariable(value, type(value), source)
