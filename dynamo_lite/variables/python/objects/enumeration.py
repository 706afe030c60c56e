"""Enum members: instances whose class may derive from a builtin one too (``IntEnum``), guarded by identity."""

from __future__ import annotations

import enum
import types
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedValue
from dynamo_lite.plan.rows import Value
from dynamo_lite.records import code_origin
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import class_lookup
from dynamo_lite.variables.core.base import (
    TEXTS,
    Attempt,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.class_lookup import is_user_defined
from dynamo_lite.variables.core.inert import is_inert
from dynamo_lite.variables.core.invariant_reads import is_read_later, refuse_read
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_if
from dynamo_lite.variables.python.containers.mappings import DictVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable

from .existing_objects import wrap_payload
from .user_object import OPERATIONS_OF_C, SCALAR_CONVERSIONS, UserObjectVariable, payload_base


class EnumVariable(UserObjectVariable):
    """An enum member, guarded by identity."""

    __slots__ = ()
    is_guarded_by_identity = True

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        found = super().instance_get(tx, name)
        if found is not None and is_read_later(tx):
            refuse_read(f"the attribute {name} of {self.describe()}")
        return found

    def as_constant(self) -> Any:
        if isinstance(self.payload, (ListVariable, DictVariable)):
            raise NotConstant("its items may change")
        return self.value

    def key(self) -> Any:
        is_standard = class_lookup(self.cls, "__hash__") is enum.Enum.__hash__
        return self.value if is_standard and class_lookup(self.cls, "__eq__") is object.__eq__ else super().key()

    def python_value(self, tx: Translator) -> Any:
        """C functions call the member's methods, so none of those may be user code, which has to be traced."""
        if any(is_user_code(tx.lookup(self.cls, name)) for name in OPERATIONS_OF_C):
            unsupported(UnsupportedValue(self.describe(), "its class overrides methods that C functions call"))
        return self.value

    def is_plain(self, tx: Translator) -> bool:
        texts = [tx.lookup(self.cls, name) for name in (*TEXTS, "__format__")]
        return is_inert(self.value) and not any(map(is_user_code, texts))

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return tx.make(tx.evaluate(TEXTS[name], (self.value,))) if self.is_plain(tx) else super().text(tx, name)

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        if not self.is_plain(tx):
            return super().format(tx, spec)
        return tx.make(tx.evaluate(format, (self.value, tx.python_value(spec))))

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        is_inherited = class_lookup(self.cls, name) is class_lookup(enum.Enum, name)
        if name in ("value", "name", "_value_", "_name_") and is_inherited:
            source = tx.guards.const(self.value).instance_item(f"_{name.strip('_')}_")
            return LazyVariable(tx.attempt, getattr(self.value, name), source).realize()
        return super().getattr(tx, name)

    def construct(self, plan: Planner) -> Value:
        return plan.constant(self.value)


def is_user_code(raw: object) -> bool:
    """Whether a special method is in Python, outside of the standard library."""
    return is_user_defined(raw) and not (isinstance(raw, types.FunctionType) and code_origin.is_standard(raw.__code__))


@wraps_if(lambda value: issubclass(type(value), enum.Enum), order=4)
def _wrap_member(attempt: Attempt, value: enum.Enum, source: Source) -> VariableTracker:
    source.check("id", value)
    builtin, payload = payload_base(type(value)), None
    if builtin in (tuple, list, dict, frozenset, *SCALAR_CONVERSIONS):
        payload = wrap_payload(attempt, value, source)
    if builtin is not None and payload is None:
        return attempt.values.opaque(value, source, f"it is an enum member that is a {builtin.__name__}")
    return EnumVariable(value, type(value), source, payload)
