"""The module ``collections``: fields of named tuples, and named tuple classes that are made inside."""

from __future__ import annotations

import collections
from typing import Any

from dynamo_lite.variables.core.attributes import binds, class_attribute, guard_class_attribute
from dynamo_lite.variables.core.base import KnownVariable, VariableTracker, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.classes.class_statement import make_class
from dynamo_lite.variables.python.containers.mapping import DictVariable
from dynamo_lite.variables.python.containers.sequence import TupleVariable
from dynamo_lite.variables.python.functions.function import NestedFunctionVariable
from dynamo_lite.variables.python.objects.user_object import unwrapped

_Pair = collections.namedtuple("_Pair", "first second")
_FIELD: type = type(_Pair.first)


class FieldVariable(KnownVariable):
    """What a named tuple's class has under the name of a field."""

    __slots__ = ()


wraps_type(_FIELD)(FieldVariable.by_identity)


@binds(_FIELD)
def _bind_field(tx: Any, raw: Any, name: str, obj: Any, cls: type, owner: type) -> VariableTracker:
    """The item itself: no ``__getitem__`` is asked."""
    index = raw.__reduce__()[1][0]
    items = None if obj is None else unwrapped(obj)
    if not isinstance(items, TupleVariable) or index >= len(items.items):
        return class_attribute(tx, owner, name, raw)
    guard_class_attribute(tx, owner, name, raw)
    return items.items[index]


@models(collections.namedtuple)
def _namedtuple(
    tx: Any,
    typename: VariableTracker,
    field_names: VariableTracker,
    *,
    rename: VariableTracker | None = None,
    defaults: VariableTracker | None = None,
    module: VariableTracker | None = None,
) -> VariableTracker:
    """The class statement that ``namedtuple`` stands for, of what it makes for these names."""
    values = [] if defaults is None or tx.is_none(defaults) else defaults.elements(tx)
    names = tx.python_value(field_names) if field_names.is_constant() else _texts(tx, field_names)
    options = {"rename": rename is not None and tx.truth(rename), "defaults": [None] * len(values)}
    real = tx.fold(collections.namedtuple, (tx.python_value(typename), names), options)
    namespace: dict[Any, VariableTracker] = {
        name: tx.make(raw) for name, raw in vars(real).items() if name not in _OF_CALL
    }
    namespace["__match_args__"] = namespace["_fields"]
    namespace["_make"] = tx.call(tx.make(classmethod), [tx.make(vars(real)["_make"].__func__)], {})
    namespace["__new__"] = _maker(tx, real.__new__, values)
    namespace["_field_defaults"] = DictVariable(dict(zip(real._field_defaults, values)))
    namespace["__module__"] = module or tx.scope.load("__name__") or ConstantVariable("__main__")
    bases = TupleVariable([tx.make(tuple)])
    return make_class(tx, tx.make(type), ConstantVariable(real.__name__), bases, DictVariable(namespace))


_OF_CALL = ("__new__", "__module__", "__match_args__", "_make", "_field_defaults")


def _texts(tx: Any, field_names: VariableTracker) -> list[str]:
    return [tx.python_value(tx.string(each.realize(), "__str__")) for each in field_names.elements(tx)]


def _maker(tx: Any, real: Any, defaults: list[VariableTracker]) -> VariableTracker:
    """A named tuple's ``__new__`` with these defaults."""
    values = TupleVariable(defaults) if defaults else None
    made = NestedFunctionVariable(real.__code__, tx.attempt.scope(real.__globals__), [], values)
    for name in ("__name__", "__qualname__", "__doc__"):
        made.setattr(tx, name, ConstantVariable(getattr(real, name)))
    return made
