"""Methods that classes inherit from ``object``, and one of ``defaultdict``."""

from __future__ import annotations

import copyreg
from collections import defaultdict
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.variables.core.attributes import (
    MISSING,
    attribute_name,
    class_lookup,
    generic_getattr,
    object_delattr,
    object_setattr,
)
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import is_user_defined, own_namespace
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.polyfills import derived
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import TupleVariable


def _object_setattr(tx: Translator, obj: Any, name: VariableTracker, value: VariableTracker) -> VariableTracker:
    object_setattr(tx, obj, attribute_name(tx, name), value)
    return ConstantVariable(None)


def _object_delattr(tx: Translator, obj: Any, name: VariableTracker) -> VariableTracker:
    object_delattr(tx, obj, attribute_name(tx, name))
    return ConstantVariable(None)


def _object_init(tx: Translator, obj: Any, /, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if (args or kwargs) and tx.lookup(obj.python_type(), "__new__") is object.__new__:
        tx.raise_error(TypeError, f"{obj.python_type().__name__}() takes no arguments")
    return ConstantVariable(None)


def _object_eq(tx: Translator, obj: object, other: VariableTracker) -> VariableTracker:
    return ConstantVariable(True if obj is other else NotImplemented)


def _object_state(tx: Translator, obj: Any) -> VariableTracker:
    """``object.__getstate__``: ``__dict__``, or a pair of it and the slots."""
    cls = obj.python_type()
    attributes: VariableTracker = obj.c_attribute(tx, "__dict__") if cls.__dictoffset__ else ConstantVariable(None)
    if isinstance(attributes, DictVariable) and not attributes.items:
        attributes = ConstantVariable(None)
    slots = DictVariable({})
    cached = own_namespace(cls).get("__slotnames__", [])  # copyreg's cache, unless the class defines it
    if type(cached) is not list or any(type(name) is not str for name in cached):
        unsupported(UnsupportedAttribute(obj.describe(), "__getstate__", "its class defines __slotnames__"))
    if type(cls) is not type and any(is_user_defined(tx.lookup(type(cls), name)) for name in _CLASS_GETTERS):
        unsupported(UnsupportedAttribute(obj.describe(), "__getstate__", "its metaclass defines how it is read"))
    for name in copyreg._slotnames(cls):  # type: ignore[attr-defined]
        value = obj.slot_get(tx, name, class_lookup(cls, name))
        if value is not None:
            slots.put(tx, ConstantVariable(name), value)
    return TupleVariable([attributes, slots]) if slots.items else attributes


_CLASS_GETTERS = ("__getattr__", "__getattribute__")


def _object_reduce(tx: Translator, obj: Any, protocol: VariableTracker) -> VariableTracker:
    names = ("__getnewargs_ex__", "__getnewargs__")
    found = next((name for name in names if tx.lookup(obj.python_type(), name) is not MISSING), "")
    return tx.call(tx.make(derived.reduce_to_parts), [obj, tx.make(found)], {})


def _missing(tx: Translator, obj: Any, key: VariableTracker) -> VariableTracker:
    """``defaultdict.__missing__``."""
    factory = obj.slot_get(tx, "default_factory", defaultdict.__dict__["default_factory"])
    if tx.is_none(factory):
        tx.raise_with(KeyError, [key])
    value = tx.call(factory, [], {})
    if not _MISSING_CALLS_SETITEM:
        return tx.call(tx.make(dict.setdefault), [obj, key, value], {})
    obj.setitem(tx, key, value)
    return value


class _RefusesItems(defaultdict[str, int]):
    def __setitem__(self, key: str, value: int) -> None:
        raise LookupError


def _missing_calls_setitem() -> bool:
    try:
        return _RefusesItems(int)["any"] != 0
    except LookupError:
        return True


_MISSING_CALLS_SETITEM = _missing_calls_setitem()
"""Whether ``defaultdict.__missing__`` calls the class's own ``__setitem__``. That of CPython 3.14.8 doesn't."""


OBJECT_METHODS: dict[str, Any] = {
    "__setattr__": _object_setattr,
    "__delattr__": _object_delattr,
    "__getattribute__": lambda tx, obj, name: generic_getattr(tx, obj, attribute_name(tx, name), hook=False),
    "__init__": _object_init,
    "__init_subclass__": lambda tx, obj: ConstantVariable(None),
    "__eq__": _object_eq,
    "__getstate__": _object_state,
    "__reduce_ex__": _object_reduce,
    "__missing__": _missing,
}
