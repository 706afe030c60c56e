"""The module ``collections``: the descriptors of named tuples' fields."""

from __future__ import annotations

import collections
from typing import Any

from dynamo_lite.variables.core.attributes import binds, class_attribute, guard_class_attribute
from dynamo_lite.variables.core.base import Translator, VariableTracker
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.python.containers.sequences import TupleVariable

_Pair = collections.namedtuple("_Pair", "first second")
_FIELD: type = type(_Pair.first)
"""The type (``_tuplegetter``) of the descriptors."""


wraps_type(_FIELD)(InvariantVariable.by_identity)


@binds(_FIELD)
def _bind_field(tx: Translator, raw: Any, name: str, obj: Any, cls: type, owner: type) -> VariableTracker:
    """The descriptor reads the item in C: it calls no ``__getitem__`` of the class."""
    index = raw.__reduce__()[1][0]
    items = obj.builtin_part()
    if not isinstance(items, TupleVariable) or index >= len(items.items):
        return class_attribute(tx, owner, name, raw)
    guard_class_attribute(tx.guards, owner, name, raw)
    return items.items[index]
