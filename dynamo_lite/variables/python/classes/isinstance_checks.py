"""``isinstance`` and ``issubclass``. Hooks of users' metaclasses are traced; those of libraries are called."""

from __future__ import annotations

import abc
import sys
import types
import typing
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch._library.fake_class_registry import FakeScriptObject

from dynamo_lite.insight.break_reasons import LegacyTensorType, ProtocolCheck, UnsupportedOperation
from dynamo_lite.records.guards import Guards
from dynamo_lite.runtime.torch_names import CustomClassBase, CustomClassBaseMeta
from dynamo_lite.variables.core.attributes import bind, class_lookup
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import MISSING, is_immutable, is_user_defined, mro
from dynamo_lite.variables.core.invariant_reads import is_read_later, refuse_read
from dynamo_lite.variables.python.containers.sequences import TupleVariable
from dynamo_lite.variables.python.objects.enumeration import is_user_code

from .classes import ClassVariable

_CLASS = object.__dict__["__class__"]
_HOOKS = {name: type.__dict__[name] for name in ("__instancecheck__", "__subclasscheck__")}
"""The default hooks, which search the MRO."""


def is_instance(tx: Translator, variable: VariableTracker, classinfo: VariableTracker) -> bool:
    """``isinstance``."""
    return any(_is_instance(tx, variable, cls) for cls in _class_list(tx, classinfo))


def is_subclass(tx: Translator, variable: VariableTracker, classinfo: VariableTracker) -> bool:
    """``issubclass``."""
    if not isinstance(variable, ClassVariable):
        tx.raise_error(TypeError, "issubclass() arg 1 must be a class")
    return any(_check(tx, "__subclasscheck__", variable, variable.value, cls) for cls in _class_list(tx, classinfo))


def plain_is_instance(tx: Translator, variable: VariableTracker, cls: type) -> bool:
    """``type.__instancecheck__``: by the type, and by ``__class__``."""
    return any(guarded_derives(tx.guards, kind, cls) for kind in _kinds(tx, variable))


def derives(kind: type, cls: type) -> bool:
    """Whether ``cls`` is in the MRO of ``kind``. Runs no code of metaclasses."""
    return any(base is cls for base in mro(kind))


def guarded_derives(guards: Guards, kind: type, cls: type) -> bool:
    """`derives`, guarded: ``__bases__`` of a class in Python can be assigned."""
    result = derives(kind, cls)
    if not is_immutable(kind):
        guards.const(kind).check("derives" if result else "derives_not", cls)
    return result


def _class_list(tx: Translator, classinfo: VariableTracker) -> list[Any]:
    if isinstance(classinfo, TupleVariable):
        return [each for part in classinfo.items for each in _class_list(tx, part.realize())]
    cls = classinfo.value if isinstance(classinfo, ClassVariable) else tx.python_value(classinfo)
    return list(cls.__args__) if type(cls) is types.UnionType else [cls]


def _kinds(tx: Translator, variable: VariableTracker) -> Iterator[type]:
    """The type of a value, and its ``__class__`` if that may be another class. CPython reads that where the type is
    none of the class."""
    kind = variable.python_type()
    if issubclass(kind, weakref.ProxyTypes):
        unsupported(UnsupportedOperation("isinstance()", variable.describe()))
    yield kind
    reads_in_python = not is_immutable(kind) and is_user_defined(class_lookup(kind, "__getattribute__"))
    if class_lookup(kind, "__class__") is _CLASS and not reads_in_python:
        return
    cls = variable.getattr(tx, "__class__").realize()
    if isinstance(cls, ClassVariable):
        yield cls.value


def _is_instance(tx: Translator, variable: VariableTracker, cls: Any) -> bool:
    if variable.python_type() is cls:
        return True
    if type(cls) is type(torch.FloatTensor):
        return _is_of_legacy_type(tx, variable, cls)
    is_protocol = isinstance(cls, type) and class_lookup(cls, "_is_protocol") is True
    if is_protocol or not isinstance(cls, type):
        tx.evaluate(isinstance, (None, cls))  # raises unless the protocol is @runtime_checkable, and for no class
    if is_protocol:
        return guarded_derives(tx.guards, variable.python_type(), cls) or _has_methods_of(tx, variable, cls)
    return any(_check(tx, "__instancecheck__", variable, kind, cls) for kind in _kinds(tx, variable))


def _has_methods_of(tx: Translator, variable: VariableTracker, protocol: Any) -> bool:
    """Whether a value that doesn't derive from a protocol has its methods: by its class, or registered, as for any
    abstract class; else in its own ``__dict__``."""
    kinds, names = list(_kinds(tx, variable)), sorted(_members_of(protocol))
    has_methods_only = all(callable(class_lookup(protocol, name)) for name in names)
    hook = class_lookup(protocol, "__subclasshook__")
    if not has_methods_only or len(kinds) > 1 or getattr(hook, "__func__", hook).__module__ != typing.__name__:
        unsupported(ProtocolCheck(variable.describe(), protocol.__qualname__))
    return _call_issubclass(tx, kinds[0], protocol) or all(_has_method(tx, variable, name) for name in names)


_get_members = "get_protocol_members" if sys.version_info >= (3, 13) else "_get_protocol_attrs"
_members_of: Callable[[Any], Iterable[str]] = vars(typing)[_get_members]
_READS_ATTRIBUTES = sys.version_info < (3, 12)
"""Whether CPython evaluates the attributes; otherwise it looks them up, as `inspect.getattr_static`."""


def _has_method(tx: Translator, variable: VariableTracker, name: str) -> bool:
    if _READS_ATTRIBUTES:
        return tx.has_attribute(variable, name) and not tx.is_none(variable.getattr(tx, name).realize())
    raw, own = tx.lookup(variable.python_type(), name), variable.instance_get(tx, name)
    return not tx.is_none(own.realize()) if own is not None else raw is not MISSING and raw is not None


def _is_of_legacy_type(tx: Translator, variable: VariableTracker, cls: Any) -> bool:
    """``isinstance(x, torch.FloatTensor)``: a matter of the tensor's dtype, device and layout."""
    if not issubclass(variable.python_type(), torch.Tensor):
        return False
    if not variable.is_tensor or variable.python_type() not in (torch.Tensor, torch.nn.Parameter):
        unsupported(LegacyTensorType(variable.describe(), str(cls)))
    dtype, device, layout = (tx.python_value(variable.getattr(tx, name)) for name in ("dtype", "device", "layout"))
    return dtype is cls.dtype and layout is cls.layout and device.type == ("cuda" if cls.is_cuda else "cpu")


def _check(tx: Translator, hook: str, variable: VariableTracker, kind: type, cls: Any) -> bool:
    """Run ``__instancecheck__`` for a value of type ``kind``, or ``__subclasscheck__`` for the class ``kind``."""
    check = tx.lookup(type(cls), hook)
    if check is _HOOKS[hook]:
        return guarded_derives(tx.guards, kind, cls)
    if check is CustomClassBaseMeta.__instancecheck__ and _is_never_opaque(kind, cls):
        return derives(kind, cls)
    if is_user_code(check):
        method = bind(tx, check, hook, tx.make(cls), type(cls))
        return bool(tx.truth(tx.call(method, [variable], {}).realize()))
    return _call_issubclass(tx, kind, cls)  # hooks of abstract classes look at the type alone


_NEVER_OPAQUE = (torch.Tensor, torch.nn.Parameter, int, float, complex, bool, str, bytes, tuple, list, dict, type(None))
"""Classes that can't be registered as torch's opaque types."""


def _is_never_opaque(kind: type, cls: object) -> bool:
    """Whether torch's hook for a class like ``ProcessGroup`` looks at the type alone: it wraps objects of such classes
    only while it traces programs itself."""
    return any(kind is each for each in _NEVER_OPAQUE) or cls is not CustomClassBase and kind is not FakeScriptObject


def _call_issubclass(tx: Translator, kind: type, cls: Any) -> bool:
    """Run ``issubclass``. A class can be registered with an abstract class later, but not unregistered, so only the
    result False is guarded."""
    if tx.evaluate(issubclass, (kind, cls)):
        return True
    if not isinstance(cls, type) or issubclass(type(cls), abc.ABCMeta):
        if is_read_later(tx):
            refuse_read(f"the classes that are registered with {cls.__qualname__}")
        tx.guards.abstract_class_checks.make(issubclass, kind, cls)
    return False
