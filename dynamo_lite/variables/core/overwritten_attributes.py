"""Attributes of existing objects that the program overwrites or deletes. User code must not observe that their old
values are deallocated."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from dynamo_lite.records.source import Source

from .class_lookup import class_lookup
from .protocols import Translator


def slot_is_bound(raw: types.MemberDescriptorType, value: Any) -> bool:
    """Whether a slot of a real object has a value."""
    try:
        raw.__get__(value)
    except AttributeError:
        return False
    return True


class OverwrittenAttribute(NamedTuple):
    """An attribute of an existing object before the call."""

    values: list[Any]
    """The real value; empty if the object lacks the attribute."""
    source: Source
    guarded: Source
    check: tuple[str, str | None]
    """The check of ``guarded`` that user code can't observe the value's deallocation."""


def overwritten_attribute(obj: Any, name: str) -> OverwrittenAttribute:
    """``obj``: the tracker of an existing object."""
    raw, namespace, source = class_lookup(obj.cls, name), obj.existing_namespace(), obj.source
    if issubclass(type(raw), types.MemberDescriptorType):
        place, bound = source.child("slot", raw), slot_is_bound(raw, obj.value)
        values = [raw.__get__(obj.value)] if bound else []
        return OverwrittenAttribute(values, place, place, ("unobserved" if bound else "unbound", None))
    values = [namespace[name]] if namespace is not None and name in namespace else []
    place = source.child("instance_dict").child("dict_item", name)
    return OverwrittenAttribute(values, place, source, ("instance_item_unobserved", name))


def record_dropped_item(tx: Translator, namespace: Mapping[str, Any], name: str) -> None:
    """Record that an object's ``__dict__`` drops its reference to the item ``name``."""
    tx.effects.check_deallocation([namespace[name]] if name in namespace else [])


def guard_overwritten(obj: Any) -> None:
    """Guard that user code can't observe the deallocation of the object's overwritten attributes. An attribute that has
    its original value again needs no guard."""
    for name, value in obj.attrs.items():
        attribute = overwritten_attribute(obj, name)
        if value is None or value.source is not attribute.source:
            attribute.guarded.check(*attribute.check)
