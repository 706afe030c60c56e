"""Values that are only passed along: their type isn't known to the tracer."""

from __future__ import annotations

import types
import weakref
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import UnknownCall, UnknownValue, UnsupportedValue
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import MISSING, BuiltinMethodVariable, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.class_lookup import is_immutable, is_user_defined
from dynamo_lite.variables.core.wrapping import wraps_if

from .user_object import instance_items


class OpaqueVariable(VariableTracker):
    """A value that can be passed along, but not operated on."""

    __slots__ = ("value", "why")

    def __init__(self, value: Any, source: Source, why: str) -> None:
        self.source = source
        self.value = value
        self.why = why

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"a {type(self.value).__qualname__} ({self.why})"

    def key(self) -> Any:
        raise NotConstant(self.why)

    def sample_value(self) -> Any:
        raise NotConstant(self.why)

    def index(self, tx: Translator, message: str) -> Any:
        if class_lookup(type(self.value), "__index__") is not MISSING:
            unsupported(UnknownValue(self.describe()))
        return super().index(tx, message)

    def refuse(self) -> NoReturn:
        """Break the graph where the value is operated on."""
        unsupported(UnsupportedValue(self.describe(), "it can only be passed on while tracing"))

    def as_fx(self) -> tuple[Any, Any]:
        self.refuse()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        kind = type(self.value)
        if issubclass(kind, weakref.ProxyTypes):  # the attributes are the referent's
            self.refuse()
        if is_user_defined(class_lookup(kind, "__getattribute__")):
            self.refuse()
        if name == "__class__":
            return tx.make(kind)
        is_method = is_immutable(kind) and type(class_lookup(kind, name)) is types.MethodDescriptorType
        if is_method and not name.startswith("_"):  # the graph breaks at its call, so reading it need not
            return BuiltinMethodVariable(self, name)
        self.refuse()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if type(class_lookup(type(self.value), "__call__")) is types.WrapperDescriptorType:
            unsupported(UnknownCall(f"{_name_in_c(self.value)}()"))
        return super().call(tx, args, kwargs)

    def construct(self, plan: Planner) -> Value:
        return plan.constant(self.value)


def _name_in_c(value: object) -> str:
    """The name of a callable in C, such as Cython's and ctypes' functions, as far as reading it runs no Python."""
    kind = type(value)
    for name in ("__qualname__", "__name__"):
        if type(class_lookup(kind, name)) in (types.GetSetDescriptorType, types.MemberDescriptorType):
            found = getattr(value, name)
        else:
            found = instance_items(value).get(name)
        if isinstance(found, str):
            return found
    return f"a {kind.__qualname__}"


def wrap_opaque(attempt: Attempt, value: object, source: Source, why: str) -> VariableTracker:
    """Wrap a value that is passed along, guarded by its type."""
    source.check_type(value)
    return OpaqueVariable(value, source, why)


@wraps_if(lambda value: True, order=100)
def _wrap_rest(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    is_generator = type(value) in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
    return wrap_opaque(attempt, value, source, _OUTSIDE if is_generator else _IN_C)


_OUTSIDE = "it was created outside of the compiled function"
_IN_C = "its type is implemented in C and not known to the tracer"
