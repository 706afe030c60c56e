"""Wraps pre-existing instances of classes in Python, with the items or value of those that derive from builtin ones."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import class_lookup
from dynamo_lite.variables.core.base import Attempt, VariableTracker
from dynamo_lite.variables.core.class_lookup import is_immutable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.wrapping import wraps_if, wraps_type
from dynamo_lite.variables.python.containers.deques import existing_deque
from dynamo_lite.variables.python.containers.mappings import DictVariable, wrap_dict_items
from dynamo_lite.variables.python.containers.sequences import (
    ListVariable,
    SequenceVariable,
    TupleVariable,
    wrap_items,
)
from dynamo_lite.variables.python.containers.sets import UNSTABLE_ITEMS, existing_set

from .opaque import OpaqueVariable
from .user_object import SCALAR_CONVERSIONS, UserObjectVariable, instance_dict, payload_base, unmodeled_c_base


def wrap_payload(attempt: Attempt, value: Any, source: Source) -> VariableTracker | None:
    """The items or the value of an instance of a class derived from a builtin one, guarded; None if it has none, or
    they can't be."""
    base = payload_base(type(value))
    if base is None:
        return None
    if base in (dict, OrderedDict, defaultdict):
        return DictVariable(*wrap_dict_items(attempt, value, source), source, base)
    if base in (list, tuple):
        kind, accessor = (ListVariable, "list_item") if base is list else (TupleVariable, "tuple_item")
        sequence: SequenceVariable = kind(wrap_items(attempt, [*base.__iter__(value)], source, accessor), source)
        return sequence
    if base is deque:
        return existing_deque(attempt, value, source)
    if base in (set, frozenset):
        return existing_set(attempt, value, source, base)
    if base in SCALAR_CONVERSIONS:
        scalar = SCALAR_CONVERSIONS[base](value)
        source.check("payload", scalar)
        return ConstantVariable(scalar)
    return None


@wraps_type(deque, set, frozenset)
def _wrap_container(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    source.check_type(value)
    found = wrap_payload(attempt, value, source)
    return OpaqueVariable(value, source, f"it has {UNSTABLE_ITEMS}") if found is None else found


@wraps_type(OrderedDict, defaultdict)  # they have attributes: ``Module.state_dict`` stores ``_metadata`` in one
@wraps_if(lambda value: not is_immutable(type(value)), order=90)
def _wrap_user_object(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    cls = type(value)
    source.check_type(value)
    c_base, builtin = unmodeled_c_base(cls), payload_base(cls)
    if c_base is not None:
        is_pybinds = c_base.__module__ == "pybind11_builtins"
        whose = "is in C++" if is_pybinds else f"is that of {c_base.__name__}, which is implemented in C"
        return OpaqueVariable(value, source, f"its state {whose}")
    if type(class_lookup(cls, "__dict__")) not in (types.GetSetDescriptorType, object):
        return OpaqueVariable(value, source, "its class overrides __dict__")
    payload = wrap_payload(attempt, value, source)
    if payload is None and builtin is not None:
        why = f"it has {UNSTABLE_ITEMS}" if issubclass(builtin, (set, frozenset)) else "its state isn't modelled"
        return OpaqueVariable(value, source, f"its class derives from {builtin.__name__}, and {why}")
    attempt.torch_state.note_class(cls)
    found = UserObjectVariable(value, cls, source, payload)
    if isinstance(payload, DictVariable) and instance_dict(value) is value:
        attempt.guards.same(source.child("instance_dict"), source)
        found.own_dict = payload
    return found
