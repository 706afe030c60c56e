"""Instances of classes that derive from ``property``, such as a library's own ``cached_property``."""

from __future__ import annotations

import types
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedOperation
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
    """One created during tracing. torch.distributions creates them to test their class, and only that is traced."""

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
    """A pre-existing one."""

    __slots__ = ()

    def slot_get(self, tx: Translator, name: str, raw: Any) -> VariableTracker | None:
        if name in ("fget", "fset", "fdel") and raw is property.__dict__[name]:
            return self._function(tx, name)
        return super().slot_get(tx, name, raw)

    def _function(self, tx: Translator, name: str) -> VariableTracker:
        assert self.source is not None
        raw = property.__dict__[name]
        if tx.lookup(self.cls, name) is not raw:
            unsupported(UnsupportedAttribute(self.describe(), name, "its class overrides that attribute of property"))
        return LazyVariable(tx.attempt, raw.__get__(self.value), self.source.child("c_attr", name))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        handler = _METHODS.get(name)
        if handler is None:
            return super().call_method(tx, name, args, kwargs)
        return call_handler(handler, (self, tx, *args), kwargs, f"property.{name}")

    def _call_function(self, tx: Translator, name: str, *args: VariableTracker) -> VariableTracker:
        function = self._function(tx, name).realize()
        if tx.is_none(function):
            unsupported(UnsupportedOperation(f"a property without {name}", self.describe()))
        return tx.call(function, list(args), {})

    def _get(self, tx: Translator, obj: VariableTracker, cls: VariableTracker | None = None) -> VariableTracker:
        return self if tx.is_none(obj) else self._call_function(tx, "fget", obj)

    def _initialize(self, tx: Translator, *args: VariableTracker, **kwargs: VariableTracker) -> NoReturn:
        unsupported(UnsupportedOperation("property.__init__()", self.describe()))


_METHODS: dict[str, Any] = {
    "__init__": PropertyVariable._initialize,
    "__get__": PropertyVariable._get,
}


@wraps_if(lambda value: issubclass(type(value), property) and type(value) is not property, order=8)
def _wrap_property_object(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    if source.kind != "const":
        source.check("type", type(value))
    return PropertyVariable(value, type(value), source)
