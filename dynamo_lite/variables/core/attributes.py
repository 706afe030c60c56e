"""Attribute access of every object by the descriptor protocol, with guards on the classes that it reads.

The order of lookups is that of the data model (*Implementing Descriptors*): data descriptors of the class, the
instance, other attributes of the class, ``__getattr__``. How a descriptor binds is registered for its type by `binds`.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import (
    AttributeChange,
    ComparisonNotTraced,
    UnsupportedAttribute,
)
from dynamo_lite.plan.rows import Attribute, Value
from dynamo_lite.records.guards import Guards
from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source

from .base import Args, CreatingCall, Kwargs, ObservedException, Planner, Translator, VariableTracker, unsupported
from .class_lookup import (
    MISSING,
    class_compares_by_identity,
    class_lookup,
    is_immutable,
    is_user_defined,
    mro,
    own_namespace,
    owner_of,
    type_name,
)
from .constant import ConstantVariable
from .invariant_reads import check_class_attribute, check_written_class_attribute, is_of_library
from .wrapping import LazyVariable


def class_attribute(tx: Translator, cls: type, name: str, raw: object) -> VariableTracker:
    """The tracker of a raw class attribute, guarded if the class can change."""
    source = tx.guards.const(cls)
    if not is_immutable(cls):
        return LazyVariable(tx.attempt, raw, source.child("type_attr", name)).realize()
    return tx.make(raw)


def guard_class_lacks(guards: Guards, cls: type, name: str) -> None:
    if not is_immutable(cls):
        guards.const(cls).check("type_lacks", name)


def guard_class_attribute(guards: Guards, cls: type, name: str, raw: object) -> None:
    """Guard the result of `class_lookup`, `MISSING` included."""
    if raw is MISSING:
        guard_class_lacks(guards, cls, name)
    elif not is_immutable(cls):
        guards.const(cls).child("type_attr", name).check("id", raw)


def written_attribute(tx: Translator, cls: type, name: str) -> VariableTracker | None:
    """What this trace has assigned to a class attribute, which is no descriptor; None if lookups find another one."""
    written = tx.attempt.values.written_classes
    for base in mro(cls) if written else ():
        tracker = written.get(identity(base))
        found = None if tracker is None else tracker.instance_get(tx, name)
        if found is not None:
            check_written_class_attribute(tx.graph, cls, name)
        if found is not None or name in own_namespace(base):
            return found
    return None


def guarded_lookup(tx: Translator, cls: type, name: str) -> Any:
    """`class_lookup` with a guard on its result, `MISSING` included."""
    if written_attribute(tx, cls, name) is not None:
        unsupported(UnsupportedAttribute(f"class {cls.__qualname__}", name, "it is assigned in the same graph"))
    raw = class_lookup(cls, name)
    guard_class_attribute(tx.guards, cls, name, raw)
    return raw


def guard_behind_instance(guards: Guards, cls: type, name: str, raw: object) -> None:
    """Guard that the class's attribute ``raw`` doesn't take precedence over the instance's."""
    if raw is MISSING:
        guard_class_lacks(guards, cls, name)
        return
    if not is_immutable(cls):
        guards.const(cls).child("type_attr", name).check("type", type(raw))
    _guard_descriptor(guards, type(raw))


def _guard_descriptor(guards: Guards, kind: type) -> None:
    """Guard which methods of the descriptor protocol a type has."""
    if not is_immutable(kind):
        for name in ("__get__", "__set__", "__delete__"):
            guard_class_attribute(guards, kind, name, class_lookup(kind, name))


def generic_getattr(
    tx: Translator, obj: VariableTracker, name: str, hook: bool = True, getter: VariableTracker | None = None
) -> VariableTracker:
    """``object.__getattribute__`` (or ``getter``, a bound method of the user's) and, with ``hook``, ``__getattr__``
    after it. Raises the program's AttributeError."""
    cls = obj.python_type()
    raised: ObservedException | None = None
    try:
        if getter is not None:
            return tx.call(getter, [ConstantVariable(name)], {})
        found = _attribute_without_hook(tx, obj, name, cls)
        if found is not None:
            return found
    except ObservedException as observed:  # of a property or getter: `__getattr__` is called after an AttributeError
        if not hook or not issubclass(observed.error.python_type(), AttributeError):
            raise
        raised = observed
    if hook:
        fallback = class_lookup(cls, "__getattr__")
        if fallback is not MISSING:
            return tx.call(bind(tx, fallback, "__getattr__", obj, cls), [ConstantVariable(name)], {})
        guard_class_lacks(tx.guards, cls, "__getattr__")
    if raised is not None:
        raise raised
    tx.raise_error(AttributeError, f"{type_name(cls)!r} object has no attribute {name!r}")


def _attribute_without_hook(tx: Translator, obj: VariableTracker, name: str, cls: type) -> VariableTracker | None:
    """The attribute by a data descriptor, else of the instance, else of the class; None if there is none."""
    written = written_attribute(tx, cls, name)
    if written is not None:
        return obj.instance_get(tx, name) or written
    raw = class_lookup(cls, name)
    if raw is not MISSING and overrides_instance(raw):
        _guard_descriptor(tx.guards, type(raw))
        return bind(tx, raw, name, obj, cls)
    found = obj.instance_get(tx, name)
    if found is not None:
        guard_behind_instance(tx.guards, cls, name, raw)
        return found
    if raw is not MISSING:
        return bind(tx, raw, name, obj, cls)
    guard_class_lacks(tx.guards, cls, name)
    return None


def is_callable(tx: Translator, value: VariableTracker) -> bool:
    """``callable``."""
    return issubclass(value.python_type(), type) or tx.lookup(value.python_type(), "__call__") is not MISSING


def attribute_name(tx: Translator, name: VariableTracker) -> str:
    """The name of an attribute, as functions and methods in C take it."""
    if not issubclass(name.python_type(), str):
        tx.raise_error(TypeError, f"attribute name must be string, not '{name.python_type().__name__}'")
    value: str = tx.python_value(name)
    return value


def is_data_descriptor(raw: object) -> bool:
    kind = type(raw)
    return class_lookup(kind, "__set__") is not MISSING or class_lookup(kind, "__delete__") is not MISSING


def overrides_instance(raw: object) -> bool:
    """Whether reads call the data descriptor. (One without ``__get__`` leaves reads to the instance.)"""
    return class_lookup(type(raw), "__get__") is not MISSING and is_data_descriptor(raw)


def bind(
    tx: Translator, raw: object, name: str, obj: VariableTracker | None, cls: type, start: type | None = None
) -> VariableTracker:
    """``raw.__get__(obj, cls)`` of the class attribute ``name``. ``obj`` None: access through the class. ``start``: the
    class whose MRO was searched, if it isn't ``cls``."""
    if not class_compares_by_identity(type(raw)):
        unsupported(
            UnsupportedAttribute(f"class {cls.__name__}", name, "the metaclass of its type defines equality of classes")
        )
    owner = start or cls
    found = _BINDERS.get(type(raw)) or _inherited_binder(type(raw))
    if found is not None:
        binder, binds_classes = found
        if tx.graph.scope.is_nested and not is_of_library(owner.__module__):
            for body in tx.graph.scope.nesting:
                body.called.methods[owner, name] = raw
        is_bound = obj is not None or binds_classes
        return binder(tx, raw, name, obj, cls, owner) if is_bound else class_attribute(tx, owner, name, raw)
    getter = class_lookup(type(raw), "__get__")
    if getter is MISSING:
        guard_class_lacks(tx.guards, type(raw), "__get__")
        if tx.graph.scope.in_backward:
            check_class_attribute(tx, owner_of(owner, name), name, raw)
        return class_attribute(tx, owner, name, raw)
    if not isinstance(getter, types.FunctionType):
        unsupported(
            UnsupportedAttribute(
                f"class {cls.__name__}", name, f"the {type(raw).__name__} descriptor in C is not modelled"
            )
        )
    instance = ConstantVariable(None) if obj is None else obj
    return _call_descriptor(tx, raw, name, owner, "__get__", instance, tx.make(cls))


def _call_descriptor(
    tx: Translator, raw: object, name: str, owner: type, method: str, *args: VariableTracker
) -> VariableTracker:
    """Call a method that user code defines for the descriptor ``raw``, the attribute ``name`` of ``owner``."""
    function = class_attribute(tx, type(raw), method, class_lookup(type(raw), method))
    return tx.call(function, [class_attribute(tx, owner, name, raw), *args], {})


_Object = VariableTracker | None
"""The object that an attribute is read from; None if it is read from the class."""
Binder = Callable[[Any, Any, str, Any, type, type], VariableTracker]
_BINDERS: dict[type, tuple[Binder, bool]] = {}
"""How descriptors of a type bind, and whether they do if they are read from the class."""


def _inherited_binder(kind: type) -> tuple[Binder, bool] | None:
    """The binder of a base class whose ``__get__`` the descriptor's class inherits."""
    base = next((base for base in mro(kind) if base in _BINDERS), None)
    if base is None or class_lookup(kind, "__get__") is not class_lookup(base, "__get__"):
        return None
    return _BINDERS[base]


def binds(*kinds: type, classes: bool = False) -> Callable[[Binder], Binder]:
    """Register how class attributes of these types bind to an instance. ``classes``: to classes as well. Others return
    themselves if they are read from the class."""

    def register(fn: Binder) -> Binder:
        for kind in kinds:
            _BINDERS[kind] = fn, classes
        return fn

    return register


@binds(types.FunctionType)
def _bind_function(
    tx: Translator, raw: object, name: str, obj: VariableTracker, cls: type, owner: type
) -> VariableTracker:
    return MethodVariable(class_attribute(tx, owner, name, raw), obj)


@binds(classmethod, classes=True)
def _bind_classmethod(tx: Translator, raw: object, name: str, obj: _Object, cls: type, owner: type) -> VariableTracker:
    function = _inner(tx, raw, name, owner, "__func__")
    kind = function.python_type()
    if class_lookup(kind, "__get__") is not MISSING and class_lookup(kind, "__call__") is MISSING:
        unsupported(
            UnsupportedAttribute(f"class {cls.__name__}", name, f"a classmethod of a {kind.__name__} is not modelled")
        )
    return MethodVariable(function, tx.make(cls))


@binds(staticmethod, classes=True)
def _bind_staticmethod(tx: Translator, raw: object, name: str, obj: _Object, cls: type, owner: type) -> VariableTracker:
    return _inner(tx, raw, name, owner, "__func__")


def _inner(tx: Translator, raw: object, name: str, owner: type, inner: str) -> VariableTracker:
    """The function of a classmethod, staticmethod or property object, which is its attribute ``inner``."""
    value = getattr(raw, inner)
    if is_immutable(owner):
        return tx.make(value)
    guard_class_attribute(tx.guards, owner, name, raw)
    source = tx.guards.const(owner).child("type_attr", name).child("c_attr", inner)
    return LazyVariable(tx.attempt, value, source).realize()


@binds(property)
def _bind_property(
    tx: Translator, raw: property, name: str, obj: VariableTracker, cls: type, owner: type
) -> VariableTracker:
    if raw.fget is None:
        _raise_as_property(tx, raw.__get__, name, cls)
    return tx.call(_inner(tx, raw, name, owner, "fget"), [obj], {})


def _raise_as_property(
    tx: Translator, access: Callable[..., object], name: str, cls: type, *values: object
) -> NoReturn:
    """Raise the AttributeError of a property without a getter, setter or deleter."""
    guard_class_attribute(tx.guards, cls, name, class_lookup(cls, name))
    stand_in = type(cls.__name__, (), {"__qualname__": cls.__qualname__})  # the text has its name
    try:
        access(stand_in(), *values)
    except AttributeError as error:
        tx.raise_error(AttributeError, str(error))
    raise AssertionError(name)


@binds(types.MemberDescriptorType)
def _bind_slot(tx: Translator, raw: object, name: str, obj: VariableTracker, cls: type, owner: type) -> VariableTracker:
    guard_class_attribute(tx.guards, owner, name, raw)
    return _in_slot(tx, raw, name, obj, cls)


def _in_slot(tx: Translator, raw: Any, name: str, obj: VariableTracker, cls: type) -> VariableTracker:
    found = obj.slot_get(tx, name, raw)
    if found is None:
        tx.raise_error(AttributeError, _text_of_unset_slot(cls, raw.__name__))
    return found


def _text_of_unset_slot(cls: type, name: str) -> str:
    """CPython's: which name of the class it has depends on the version."""
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    stand_in = type(cls.__name__, (), {"__slots__": (name,), **names})
    try:
        getattr(stand_in(), name)
    except AttributeError as error:
        return str(error)
    raise AssertionError(name)


@binds(types.GetSetDescriptorType)
def _bind_getset(
    tx: Translator, raw: object, name: str, obj: VariableTracker, cls: type, owner: type
) -> VariableTracker:
    guard_class_attribute(tx.guards, owner, name, raw)
    return obj.c_attribute(tx, name)


@binds(functools.cached_property)
def _bind_cached_property(
    tx: Translator, raw: Any, name: str, obj: VariableTracker, cls: type, owner: type
) -> VariableTracker:
    guard_class_attribute(tx.guards, owner, name, raw)
    source = tx.guards.const(owner).child("type_attr", name).child("instance_dict").child("dict_item", "func")
    function = LazyVariable(tx.attempt, raw.func, source).realize()
    value = tx.call(function, [obj], {})
    obj.instance_set(tx, raw.attrname, value)
    return value


@binds(types.MethodDescriptorType, types.WrapperDescriptorType)
def _bind_c_method(
    tx: Translator, raw: Any, name: str, obj: VariableTracker, cls: type, owner: type
) -> VariableTracker:
    guard_class_attribute(tx.guards, owner, name, raw)
    return BuiltinMethodVariable(obj, raw.__name__, None if raw.__name__ == name else raw)


@binds(types.ClassMethodDescriptorType, classes=True)
def _bind_c_classmethod(tx: Translator, raw: Any, name: str, obj: _Object, cls: type, owner: type) -> VariableTracker:
    guard_class_attribute(tx.guards, owner, name, raw)
    return BuiltinMethodVariable(tx.make(cls), raw.__name__, None if raw.__name__ == name else raw)


def bind_c_descriptor(tx: Translator, raw: object, name: str, obj: VariableTracker) -> VariableTracker:
    """``raw.__get__(obj)`` of a getset or member descriptor that the program holds."""
    if isinstance(raw, types.GetSetDescriptorType):
        return obj.c_attribute(tx, name)
    return _in_slot(tx, raw, name, obj, obj.python_type())


_SET_PROPERTY, _DELETE_PROPERTY = property.__dict__["__set__"], property.__dict__["__delete__"]


def object_setattr(tx: Translator, obj: VariableTracker, name: str, value: VariableTracker) -> None:
    """``object.__setattr__``: data descriptors first, then the instance."""
    cls = obj.python_type()
    raw = class_lookup(cls, name)
    if written_attribute(tx, cls, name) is not None and cls.__dictoffset__:
        obj.instance_set(tx, name, value)
        return
    if raw is not MISSING and is_data_descriptor(raw):
        setter = class_lookup(type(raw), "__set__")
        if setter is _SET_PROPERTY:
            if raw.fset is None:
                _raise_as_property(tx, raw.__set__, name, cls, None)
            tx.call(_inner(tx, raw, name, cls, "fset"), [obj, value], {})
        elif issubclass(type(raw), types.MemberDescriptorType):
            guard_class_attribute(tx.guards, cls, name, raw)
            obj.instance_set(tx, name, value)
        elif isinstance(setter, types.FunctionType):
            _call_descriptor(tx, raw, name, cls, "__set__", obj, value)
        else:
            obj.set_c_attribute(tx, name, value)
        return
    guard_class_attribute(tx.guards, cls, name, raw)
    if not cls.__dictoffset__:
        tx.raise_error(AttributeError, _text_of_unknown(cls, name, raw))
    obj.instance_set(tx, name, value)


def _text_of_unknown(cls: type, name: str, raw: object) -> str:
    """CPython's, where an attribute that an instance hasn't got is deleted, or assigned without a ``__dict__``. `raw`:
    what its class has."""
    if raw is not MISSING and not cls.__dictoffset__:
        return f"{type_name(cls)!r} object attribute {name!r} is read-only"
    text = f"{type_name(cls)!r} object has no attribute {name!r}"
    usual = all(class_lookup(cls, each) is getattr(object, each) for each in ("__setattr__", "__delattr__"))
    if cls.__dictoffset__ or not usual or sys.version_info < (3, 13):
        return text
    return f"{text} and no __dict__ for setting new attributes"


def object_delattr(tx: Translator, obj: VariableTracker, name: str) -> None:
    """``object.__delattr__``."""
    cls = obj.python_type()
    raw = class_lookup(cls, name)
    in_slot = issubclass(type(raw), types.MemberDescriptorType)
    if raw is not MISSING and is_data_descriptor(raw) and not in_slot:
        deleter = class_lookup(type(raw), "__delete__")
        if deleter is _DELETE_PROPERTY:
            if raw.fdel is None:
                _raise_as_property(tx, raw.__delete__, name, cls)
            tx.call(_inner(tx, raw, name, cls, "fdel"), [obj], {})
            return
        if isinstance(deleter, types.FunctionType):
            _call_descriptor(tx, raw, name, cls, "__delete__", obj)
            return
        unsupported(AttributeChange(obj.describe(), name, "deleted"))
    present = obj.slot_get(tx, name, raw) if in_slot else obj.instance_get(tx, name)
    if present is None:
        tx.raise_error(AttributeError, name if in_slot else _text_of_unknown(cls, name, raw))
    obj.instance_delete(tx, name)


class MethodVariable(VariableTracker):
    """A bound method: a function and its first argument."""

    __slots__ = ("function", "receiver")
    exact_type = types.MethodType
    receiver: VariableTracker
    implements_equality = True

    def __init__(self, function: VariableTracker, receiver: VariableTracker, source: Source | None = None) -> None:
        self.source = source
        self.function = function
        self.receiver = receiver

    def describe(self) -> str:
        return f"method {self.function.describe()}"

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        tx.delegate(self, self.function)
        return tx.call(self.function, [self.receiver, *args], kwargs)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__self__":
            return self.receiver
        if name == "__func__":
            return self.function
        return self.function.getattr(tx, name)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol in ("==", "!=") and isinstance(other, MethodVariable):
            same = tx.identical(self.receiver, other.receiver)
            same = same and tx.truth(tx.compare("==", self.function.realize(), other.function.realize()))
            return ConstantVariable(same == (symbol == "=="))
        return None

    def creating_call(self) -> CreatingCall | None:
        function = self.function.realize()
        if not function.is_constant():
            return None
        return CreatingCall(types.MethodType, (function.as_constant(),), [self.receiver])

    def construct(self, plan: Planner) -> Value:
        return plan.call(types.MethodType, self.function, self.receiver)


class BuiltinMethodVariable(VariableTracker):
    """A bound method in C: ``[].append``. The receiver's `call_method` models it.

    ``raw``: the descriptor that bound it, if the receiver's class may have another one under the name.
    """

    __slots__ = ("receiver", "name", "raw")
    receiver: VariableTracker

    def __init__(self, receiver: VariableTracker, name: str, raw: Any = None) -> None:
        self.source = None
        self.receiver = receiver
        self.name = name
        self.raw = raw

    def python_type(self) -> type:
        raw = class_lookup(self.receiver.python_type(), self.name) if self.raw is None else self.raw
        return types.MethodWrapperType if type(raw) is types.WrapperDescriptorType else types.BuiltinMethodType

    def describe(self) -> str:
        return f"method {self.name} of {self.receiver.describe()}"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__self__":
            return self.receiver
        if name == "__name__":
            return ConstantVariable(self.name)
        return super().getattr(tx, name)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        return self.receiver.call_method(tx, self.name, args, kwargs)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """Equal if the functions are, and the receivers are identical (their ``__eq__`` isn't called)."""
        if symbol not in ("==", "!=") or other.python_type() is not self.python_type():
            return None
        if not isinstance(other, BuiltinMethodVariable) or self.raw is not other.raw:
            unsupported(ComparisonNotTraced(symbol, self.describe(), other.describe()))
        same = self.name == other.name and tx.identical(self.receiver, other.receiver)
        return ConstantVariable(same == (symbol == "=="))

    def construct(self, plan: Planner) -> Value:
        raw, kind = self.raw, self.receiver.python_type()
        if raw is None and is_user_defined(class_lookup(kind, "__getattribute__")):
            raw = class_lookup(kind, self.name)  # the program has read the attribute once
        if raw is not None:
            of_class = [plan.constant(None)] if type(raw) is types.ClassMethodDescriptorType else []
            return plan.call(raw.__get__, *of_class, self.receiver)
        return Attribute(plan.value(self.receiver), self.name)
