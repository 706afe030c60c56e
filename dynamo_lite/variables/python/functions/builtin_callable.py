"""Functions and methods implemented in C. `registry` has the model of each that can be traced."""

from __future__ import annotations

import builtins
import time
import types
from typing import Any

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import ClockRead, DisabledCall, FileAccess, UnknownCall, UnsupportedAttribute
from dynamo_lite.insight.site import public_name
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable, bind_c_descriptor
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.class_lookup import MISSING, c_lookup, class_lookup, is_immutable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import COMPARE
from dynamo_lite.variables.core.registry import class_method, find_model
from dynamo_lite.variables.core.wrapping import wraps_if, wraps_type

_CONSTANT_ATTRIBUTES = frozenset({"__name__", "__qualname__", "__module__", "__doc__", "__objclass__", "__get__"})


class BuiltinVariable(InvariantVariable):
    """A callable implemented in C, or the descriptor of such an attribute, read from its class: `Tensor.ndim`."""

    __slots__ = ()
    is_loaded_as_constant = True

    def describe(self) -> str:
        public, module = public_name(self.value), getattr(self.value, "__module__", None)
        if public is not None and public.startswith("torch."):
            return public
        name = public or getattr(self.value, "__qualname__", None)
        name = str(name or getattr(self.value, "__name__", repr(type(self.value))))
        if getattr(builtins, name, None) is self.value:
            return name
        return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else name

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name in _CONSTANT_ATTRIBUTES and hasattr(self.value, name):
            return tx.make(getattr(self.value, name))
        return super().getattr(tx, name)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """Distinct objects are equal if they are the same method of the same object."""
        if symbol not in ("==", "!=") or not isinstance(other, BuiltinVariable):
            return None
        return tx.make(tx.evaluate(COMPARE[symbol], (self.value, other.value)))

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        model = find_model(self.value)
        if model is not None:
            return model(tx, args, kwargs)
        if getattr(self.value, "__module__", None) == time.__name__:
            unsupported(ClockRead(f"{self.describe()}()"))
        unsupported((FileAccess if self.value is open else UnknownCall)(f"{self.describe()}()"))


class UnboundMethodVariable(BuiltinVariable):
    """A method implemented in C, reached through its class: ``list.append``."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        model = find_model(self.value)
        if model is not None:
            return model(tx, args, kwargs)
        if not args or not issubclass(args[0].python_type(), self.value.__objclass__):
            tx.refuse_operands(f"{self.describe()}()", self.value, *args[:1])
        if self.value is object.__eq__ and len(args) == 2 and not kwargs:
            return ConstantVariable(True if tx.identical(args[0], args[1]) else NotImplemented)
        if not _is_method_of(self.value, args[0]):
            unsupported(UnknownCall(f"{self.describe()}()", f"the class of {args[0].describe()} overrides it"))
        return args[0].call_method(tx, self.value.__name__, args[1:], kwargs)


def _is_method_of(method: Any, receiver: VariableTracker) -> bool:
    """Whether the receiver's class inherits this method, so that `call_method` models it."""
    kind, name = receiver.python_type(), method.__name__
    inherits = c_lookup(kind, name) is method or method in _OVERRIDDEN_ALIKE
    return inherits and (not issubclass(kind, type) or class_method(receiver.as_constant(), name) is not None)


_OVERRIDDEN_ALIKE = (object.__getattribute__, BaseException.__init__, Exception.__init__)
"""Methods whose overrides in derived builtin classes have the same effect."""


wraps_type(types.MethodDescriptorType, types.WrapperDescriptorType)(UnboundMethodVariable.by_identity)


class DescriptorGetVariable(BuiltinVariable):
    """The bound ``__get__`` of an attribute implemented in C: ``type.__dict__["__mro__"].__get__``, as in `inspect`."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        raw, kind = self.value.__self__, args[0].python_type() if args else type(None)
        if kwargs or len(args) > 2 or kind is type(None) or not issubclass(kind, raw.__objclass__):
            unsupported(UnknownCall(f"{self.describe()}()", "it doesn't get an object and its class"))
        if vars(raw.__objclass__).get(raw.__name__) is not raw:  # from 3.15 on
            unsupported(UnknownCall(f"{self.describe()}()", "all classes share the descriptor"))
        return bind_c_descriptor(tx, raw, raw.__name__, args[0])


_ATTRIBUTE_DESCRIPTORS = (types.GetSetDescriptorType, types.MemberDescriptorType)


wraps_if(lambda value: type(value) in _ATTRIBUTE_DESCRIPTORS and is_immutable(value.__objclass__), order=59)(
    BuiltinVariable.by_identity
)


def _is_modelled_class_method(value: object, receiver: object, name: str | None) -> bool:
    """Whether it is a class method in C, bound to a class. Each read of one from its class creates another object."""
    if type(value) is not types.BuiltinFunctionType or not isinstance(receiver, type) or name is None:
        return False
    raw = class_lookup(receiver, name)
    is_class_method = type(raw) is types.ClassMethodDescriptorType and class_method(receiver, name) is not None
    return is_class_method and value == raw.__get__(None, receiver)


@wraps_if(lambda value: callable(value) and is_immutable(type(value)), order=60)
def _wrap_builtin(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    receiver = getattr(value, "__self__", None)
    name = getattr(value, "__name__", None)
    if _is_modelled_class_method(value, receiver, name):
        return _wrap_c_method(attempt, value, source)
    is_function = receiver is None or isinstance(receiver, (types.ModuleType, type)) or _is_of_pybind(receiver)
    if is_function or find_model(value) is not None:
        return BuiltinVariable.by_identity(attempt, value, source)
    if type(value) is types.MethodWrapperType and type(receiver) in _ATTRIBUTE_DESCRIPTORS and name == "__get__":
        return DescriptorGetVariable.by_identity(attempt, value, source)
    if not issubclass(type(value), types.BuiltinFunctionType) or name is None or source.kind == "const":
        return attempt.values.opaque(value, source, "a bound method of a C type")
    return _wrap_c_method(attempt, value, source)


def _is_of_pybind(receiver: object) -> bool:
    """Whether it is what functions of pybind11 are bound to, each its own record."""
    kind = type(receiver)
    return kind.__module__ == "pybind11_builtins" and kind.__name__.startswith("pybind11_detail_function_record")


def _wrap_c_method(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    source.check("type", type(value))
    source.child("c_attr", "__name__").check("equals", value.__name__)
    receiver = attempt.values.wrap(value.__self__, source.child("c_attr", "__self__"))
    method = BuiltinMethodVariable(receiver, value.__name__)
    method.source = source
    return method


class CompiledFunctionVariable(BuiltinVariable):
    """The result of ``dl.compile``, which is inlined, or of ``dl.disable``, which breaks the graph."""

    __slots__ = ()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.make(self.value.__class__)
        if class_lookup(type(self.value), name) is MISSING:  # given to it, or the function's
            unsupported(UnsupportedAttribute(self.describe(), name))
        return super().getattr(tx, name)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        wrapped = tx.make(self.value.__wrapped__)
        if self.value.owner is _C.OFF:
            unsupported(DisabledCall(wrapped.describe()))
        return tx.call(wrapped, args, kwargs)


wraps_type(_C.Wrapped)(CompiledFunctionVariable.by_identity)
