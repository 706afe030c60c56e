"""Weak containers that were found: what they hold under a key, where that is known to be alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import class_lookup
from dynamo_lite.variables.core.base import Args, Kwargs, LazyVariable, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable
from dynamo_lite.variables.python.objects.weak_reference import WeakReferenceVariable


def _data(container: VariableTracker, name: str) -> tuple[Any, Source]:
    """A found container's own dict or set of references, and its place. Nothing waits to be removed of it."""
    if not isinstance(container, UserObjectVariable) or container.source is None or container.attrs:
        _refuse(container, name)
    value, source = container.value, container.source
    attributes = vars(value)
    if type(attributes.get("data")) not in (dict, set) or attributes.get("_pending_removals") != []:
        _refuse(container, name)
    source.instance_item("_pending_removals").check("length", 0)
    place = source.instance_item("data")
    place.check("type", type(attributes["data"]))
    return attributes["data"], place


def _refuse(container: VariableTracker, name: str) -> Any:
    unsupported(UnsupportedOperation(f"{name}()", container.describe()))


def _known_object(tx: Any, container: VariableTracker, name: str, key: VariableTracker) -> Any:
    """The real object, which is this one in every call and hashes by identity."""
    found = next((value for value, tracker in tx.attempt.memo.values() if tracker is key), None)
    kind = type(found)
    by_identity = class_lookup(kind, "__hash__") is object.__hash__ and class_lookup(kind, "__eq__") is object.__eq__
    if found is None or key.source is None or not by_identity or not kind.__weakrefoffset__:
        _refuse(container, name)
    key.source.check("id", found)
    return found


def _of_key(tx: Any, container: VariableTracker, name: str, key: VariableTracker) -> VariableTracker | None:
    """What a WeakKeyDictionary holds under an object; None: nothing."""
    data, place = _data(container, name)
    reference = weakref.ref(_known_object(tx, container, name, key.realize()))
    own = next((each for each in data if each == reference), None)
    if own is None:
        place.check("dict_lacks", reference)
        return None
    return LazyVariable(tx.attempt, data[own], place.child("dict_item", own))


def _of_value(tx: Any, container: VariableTracker, name: str, key: VariableTracker) -> VariableTracker | None:
    """What a WeakValueDictionary holds under a constant; None: nothing, or it has died."""
    data, place = _data(container, name)
    known = key.realize().as_constant() if isinstance(key.realize(), ConstantVariable) else _refuse(container, name)
    if known not in data:
        place.check("dict_lacks", known)
        return None
    found = WeakReferenceVariable(data[known], place.child("dict_item", known), attempt=tx.attempt).call(tx, [], {})
    return None if tx.is_none(found) else found


def _in_set(tx: Any, container: VariableTracker, name: str, key: VariableTracker) -> VariableTracker | None:
    data, place = _data(container, name)
    reference = weakref.ref(_known_object(tx, container, name, key.realize()))
    place.check("set_items", frozenset(data))
    return key if reference in data else None


Look = Callable[[Any, VariableTracker, str, VariableTracker], VariableTracker | None]


def _models(cls: type, name: str, look: Look, make: Callable[[Any, VariableTracker | None, Args], Any]) -> None:
    def model(tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        container = args[0].realize()
        if kwargs or len(args) not in (2, 3) or container.python_type() is not cls:
            _refuse(container, name)
        found = make(tx, look(tx, container, name, args[1]), args)
        return found if found is not None else _refuse(container, name)  # it raises

    models_raw(cls.__dict__[name], model)


for _cls, _look in ((weakref.WeakKeyDictionary, _of_key), (weakref.WeakValueDictionary, _of_value)):
    _models(_cls, "__getitem__", _look, lambda tx, found, args: found)
    _models(_cls, "get", _look, lambda tx, found, args: found or (args[2] if len(args) > 2 else ConstantVariable(None)))
    _models(_cls, "__contains__", _look, lambda tx, found, args: ConstantVariable(found is not None))
_models(weakref.WeakSet, "__contains__", _in_set, lambda tx, found, args: ConstantVariable(found is not None))
