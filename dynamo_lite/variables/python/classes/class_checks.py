"""``isinstance`` and ``issubclass``: hooks of the program's metaclasses are traced, others are asked."""

from __future__ import annotations

import abc
import types
import typing
import weakref
from typing import Any

import torch
from torch._opaque_base import OpaqueBaseMeta

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records import code_origin
from dynamo_lite.variables.core.attributes import MISSING, bind, class_lookup
from dynamo_lite.variables.core.base import VariableTracker, mro, unsupported
from dynamo_lite.variables.core.lookup import is_heap_type, is_user_defined
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.sequence import TupleVariable

from .classes import ClassVariable

_CLASS = object.__dict__["__class__"]
_PROXIES = (weakref.ProxyType, weakref.CallableProxyType)
_HOOKS = {name: type.__dict__[name] for name in ("__instancecheck__", "__subclasscheck__")}
"""Those of ``type``, which look at the MRO."""


def is_instance(tx: Translator, variable: VariableTracker, classinfo: VariableTracker) -> bool:
    """``isinstance``."""
    return any(_is_instance(tx, variable, cls) for cls in _class_list(tx, classinfo))


def is_subclass(tx: Translator, variable: VariableTracker, classinfo: VariableTracker) -> bool:
    """``issubclass``."""
    if not isinstance(variable, ClassVariable):
        tx.raise_error(TypeError, "issubclass() arg 1 must be a class")
    return any(_check(tx, "__subclasscheck__", variable, variable.value, cls) for cls in _class_list(tx, classinfo))


def plain_is_instance(tx: Translator, variable: VariableTracker, cls: type) -> bool:
    """``type.__instancecheck__``: by the class, and by the one that the object says it has."""
    return any(guarded_derives(tx, kind, cls) for kind in _kinds(tx, variable))


def derives(kind: type, cls: type) -> bool:
    """Whether a class is in another's MRO; no metaclass is asked how its classes compare."""
    return any(base is cls for base in mro(kind))


def guarded_derives(tx: Translator, kind: type, cls: type) -> bool:
    """The same where something depends on it: the bases of a class can be assigned."""
    found = derives(kind, cls)
    if is_heap_type(kind):
        tx.guards.const(kind).check("derives" if found else "derives_not", cls)
    return found


def _class_list(tx: Translator, classinfo: VariableTracker) -> list[Any]:
    if isinstance(classinfo, TupleVariable):
        return [each for part in classinfo.items for each in _class_list(tx, part.realize())]
    found = classinfo.value if isinstance(classinfo, ClassVariable) else tx.python_value(classinfo)
    return list(found.__args__) if type(found) is types.UnionType else [found]


def _kinds(tx: Translator, variable: VariableTracker) -> list[type]:
    kind = variable.python_type()
    if class_lookup(kind, "__class__") is _CLASS and not any(kind is each for each in _PROXIES):
        return [kind]
    said = variable.getattr(tx, "__class__").realize()
    return [kind, said.value] if isinstance(said, ClassVariable) else [kind]


def _is_instance(tx: Translator, variable: VariableTracker, cls: Any) -> bool:
    if variable.python_type() is cls:
        return True
    if type(cls) is type(torch.FloatTensor):
        return _is_of_tensor_type(tx, variable, cls)
    if not isinstance(cls, type) and not _is_classinfo(cls):
        tx.fold(isinstance, (None, cls))
    if isinstance(cls, type) and class_lookup(cls, "_is_protocol") is True:
        return _fits_protocol(tx, variable, cls)
    return any(_check(tx, "__instancecheck__", variable, kind, cls) for kind in _kinds(tx, variable))


def _is_of_tensor_type(tx: Translator, variable: VariableTracker, kind: Any) -> bool:
    """``torch.FloatTensor`` and its like: tensors of a type on a device."""
    if not issubclass(variable.python_type(), torch.Tensor):
        return False
    name, device = (variable.getattr(tx, each).as_constant() for each in ("dtype", "device"))
    if kind.layout is not torch.strided or device.type not in ("cpu", "cuda", "meta"):
        unsupported(UnsupportedOperation(f"isinstance() by {kind}", variable.describe()))
    return name is kind.dtype and device.type == ("cuda" if kind.is_cuda else "cpu")


def _check(tx: Translator, hook: str, variable: VariableTracker, kind: type, cls: Any) -> bool:
    """Ask a class about a value of a kind, or about the class itself."""
    check = tx.lookup(type(cls), hook)
    if check is _HOOKS[hook]:
        return guarded_derives(tx, kind, cls)
    if check is OpaqueBaseMeta.__instancecheck__ and any(kind is each for each in _NEVER_OPAQUE):
        return derives(kind, cls)
    if is_user_defined(check) and not (
        isinstance(check, types.FunctionType) and code_origin.is_standard(check.__code__)
    ):
        method = bind(tx, check, hook, tx.make(cls), type(cls))
        return bool(tx.truth(tx.call(method, [variable], {}).realize()))
    return _ask(tx, kind, cls)  # abstract classes answer by the class alone


_NEVER_OPAQUE = (torch.Tensor, torch.nn.Parameter, int, float, complex, bool, str, bytes, tuple, list, dict, type(None))
"""Classes that can't be registered as torch's opaque types."""


def _ask(tx: Translator, kind: type, cls: Any) -> bool:
    """Ask a class for real. What an abstract class affirms it affirms for good; others it may be told later."""
    if tx.fold(issubclass, (kind, cls)):
        return True
    if not isinstance(cls, type) or issubclass(type(cls), abc.ABCMeta):
        tx.guards.answers.ask(issubclass, kind, cls)
    return False


def _is_classinfo(value: Any) -> bool:
    """Whether ``isinstance`` takes it, though it is no class."""
    try:
        isinstance(None, value)
    except TypeError:
        return False
    return True


class _Instance:
    """Says that it is of a class."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    @property
    def __class__(self) -> Any:
        return self._kind


def _affirms(kind: type, protocol: type) -> bool:
    """What a protocol says of an instance that has no attributes of its own."""
    return abc.ABCMeta.__instancecheck__(protocol, _Instance(kind))


def _fits_protocol(tx: Translator, variable: VariableTracker, protocol: type) -> bool:
    """By what the class has; an instance may have a protocol's members itself, which the versions see differently."""
    kind = variable.python_type()
    tx.fold(isinstance, (None, protocol))  # it may not be asked at all
    if derives(kind, protocol) or tx.guards.answers.ask(_affirms, kind, protocol):
        return True
    hook = tx.lookup(kind, "__getattr__")
    if hook is MISSING or (isinstance(hook, types.FunctionType) and code_origin.is_library(hook.__code__)):
        for name in typing._get_protocol_attrs(protocol):  # type: ignore[attr-defined]
            if class_lookup(kind, name) is MISSING and not tx.has_attribute(variable, name):
                return False
    unsupported(UnsupportedOperation("isinstance() by a protocol", variable.describe()))
