"""Instances of classes that derive from ``property``, such as a library's own ``cached_property``."""

from __future__ import annotations

import types

from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedOperation
from dynamo_lite.plan.rows import Value
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.wrapping import wraps_if

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

    def construct(self, plan: Planner) -> Value:
        raise NotConstant(self.describe())


class PropertyVariable(UserObjectVariable):
    """A pre-existing property object."""

    __slots__ = ()

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """``property.__get__`` of an object, which calls the getter."""
        getter = self.slot_get(tx, "fget", property.__dict__["fget"])
        if name != "__get__" or not args or kwargs or tx.is_none(args[0]) or getter is None or tx.is_none(getter):
            unsupported(UnsupportedOperation(f"property.{name}()", self.describe()))
        return tx.call(getter.realize(), args[:1], {})


wraps_if(lambda value: issubclass(type(value), property) and type(value) is not property, order=8)(
    PropertyVariable.by_type
)
