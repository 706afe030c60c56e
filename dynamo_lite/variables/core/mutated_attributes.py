"""Attributes of found objects that are written or deleted, without having been looked at maybe."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from .lookup import class_lookup
from .protocols import Translator


def slot_is_bound(raw: types.MemberDescriptorType, value: Any) -> bool:
    try:
        raw.__get__(value)
    except AttributeError:
        return False
    return True


class OverwrittenAttribute(NamedTuple):
    """What there is under a name now. ``check``: of ``at``, that it is nothing that is seen to die."""

    values: list[Any]
    place: Any
    at: Any
    check: tuple[str, str | None]


def overwritten_attribute(of: Any, name: str) -> OverwrittenAttribute:
    raw, namespace, source = class_lookup(of.cls, name), of.existing_namespace(), of.source
    if issubclass(type(raw), types.MemberDescriptorType):
        place, bound = source.child("slot", raw), slot_is_bound(raw, of.value)
        values = [raw.__get__(of.value)] if bound else []
        return OverwrittenAttribute(values, place, place, ("dies_unseen" if bound else "unbound", None))
    values = [namespace[name]] if namespace is not None and name in namespace else []
    place = source.child("instance_dict").child("dict_item", name)
    return OverwrittenAttribute(values, place, source, ("instance_item_dies_unseen", name))


def record_dropped_item(tx: Translator, namespace: Mapping[str, Any], name: str) -> None:
    """An item of an object's ``__dict__`` is written or deleted."""
    tx.effects.let_go([namespace[name]] if name in namespace else [])


def guard_overwritten(of: Any) -> None:
    """Assume that nobody sees die what the object's attributes lose, but for those that are put back."""
    for name, value in of.attrs.items():
        over = overwritten_attribute(of, name)
        if value is None or value.source is not over.place:
            over.at.check(*over.check)
