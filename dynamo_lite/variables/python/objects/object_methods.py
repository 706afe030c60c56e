"""Methods that classes inherit from ``object``."""

from __future__ import annotations

import copyreg
from collections import OrderedDict, defaultdict, deque
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.variables.core.attributes import (
    MISSING,
    attribute_name,
    bind,
    class_lookup,
    generic_getattr,
    object_delattr,
    object_setattr,
)
from dynamo_lite.variables.core.base import VariableTracker, own_namespace, unsupported
from dynamo_lite.variables.core.class_lookup import is_user_defined
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable


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


def _object_eq(tx: Translator, obj: Any, other: VariableTracker) -> VariableTracker:
    return ConstantVariable(True if obj is other else NotImplemented)


def _object_reduce(tx: Translator, obj: Any, protocol: VariableTracker) -> VariableTracker:
    """``object.__reduce_ex__`` from protocol 2 on. ``copy.copy`` and ``copy.deepcopy`` call it."""
    cls = obj.python_type()
    reduce = tx.lookup(cls, "__reduce__")
    if is_user_defined(reduce):
        return tx.call(bind(tx, reduce, "__reduce__", obj, cls), [], {})
    state = obj.call_special(tx, "__getstate__")
    if state is None:
        state = _object_state(tx, obj)
    kind = tx.make(cls)
    if reduce in (set.__reduce__, frozenset.__reduce__):
        return TupleVariable([kind, TupleVariable([ListVariable(list(obj.each_with_length_hint(tx)))]), state])
    items: list[VariableTracker] = [ConstantVariable(None), ConstantVariable(None)]
    if issubclass(cls, list):
        items[0] = tx.iterate(obj)
    elif issubclass(cls, dict):
        items[1] = tx.iterate(tx.call(obj.getattr(tx, "items"), [], {}))
    if reduce is OrderedDict.__reduce__:
        return TupleVariable([kind, TupleVariable([]), state, *items])
    if reduce is defaultdict.__reduce__:
        factory = obj.slot_get(tx, "default_factory", class_lookup(defaultdict, "default_factory"))
        arguments = TupleVariable([] if tx.is_none(factory) else [factory])
        return TupleVariable([kind, arguments, ConstantVariable(None), *items])
    if reduce is deque.__reduce__:
        limit = obj.builtin_part().maxlen
        arguments = TupleVariable([] if limit is None else [TupleVariable([]), ConstantVariable(limit)])
        return TupleVariable([kind, arguments, state, tx.iterate(obj)])
    if reduce is not object.__reduce__ or tx.lookup(cls, "__getnewargs_ex__") is not MISSING:
        unsupported(UnsupportedAttribute(obj.describe(), "__reduce_ex__", "its class defines how it is pickled"))
    created = TupleVariable([kind, *_new_arguments(tx, obj)])
    return TupleVariable([tx.make(copyreg.__newobj__), created, state, *items])  # type: ignore[attr-defined]


def _new_arguments(tx: Translator, obj: Any) -> list[VariableTracker]:
    """The results of ``__getnewargs__``; strings, numbers and tuples define it in C, and return their value."""
    method = obj.find_special(tx, "__getnewargs__")
    if method is not None:
        return tx.call(method, [], {}).realize().elements(tx)
    if tx.lookup(obj.python_type(), "__getnewargs__") is MISSING:
        return []
    value = obj.builtin_part()
    return [TupleVariable(list(value.items)) if isinstance(value, TupleVariable) else value]


def _object_state(tx: Translator, obj: Any) -> VariableTracker:
    """``object.__getstate__``: ``__dict__``, or a pair of it and the slots."""
    cls = obj.python_type()
    attributes: VariableTracker = obj.namespace(tx.attempt) if cls.__dictoffset__ else ConstantVariable(None)
    if isinstance(attributes, DictVariable) and not attributes.items:
        attributes = ConstantVariable(None)
    slots = DictVariable({})
    cached = own_namespace(cls).get("__slotnames__", [])  # copyreg's cache, unless the class defines it
    if type(cached) is not list or any(type(name) is not str for name in cached):
        unsupported(UnsupportedAttribute(obj.describe(), "__getstate__", "its class defines __slotnames__"))
    for name in copyreg._slotnames(cls):  # type: ignore[attr-defined]
        value = obj.slot_get(tx, name, class_lookup(cls, name))
        if value is not None:
            slots.put(tx, ConstantVariable(name), value)
    return TupleVariable([attributes, slots]) if slots.items else attributes


OBJECT_METHODS: dict[str, Any] = {
    "__setattr__": _object_setattr,
    "__delattr__": _object_delattr,
    "__getattribute__": lambda tx, obj, name: generic_getattr(tx, obj, attribute_name(tx, name), hook=False),
    "__init__": _object_init,
    "__init_subclass__": lambda tx, obj: ConstantVariable(None),
    "__eq__": _object_eq,
    "__reduce_ex__": _object_reduce,
}
