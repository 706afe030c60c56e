"""Enum members, with the operators of the builtin type that their class mixes in."""

from __future__ import annotations

import enum
import types
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedValue
from dynamo_lite.records import code_origin
from dynamo_lite.variables.core.attributes import MISSING, class_lookup
from dynamo_lite.variables.core.base import TEXTS, Args, Kwargs, LazyVariable, VariableTracker, unsupported, wraps_if
from dynamo_lite.variables.core.class_lookup import is_user_defined
from dynamo_lite.variables.core.formatting import has_user_text
from dynamo_lite.variables.core.inert import is_inert, own_enum_value
from dynamo_lite.variables.core.operator_symbols import method_of
from dynamo_lite.variables.core.protocols import Codegen, Translator

from .object_methods import OBJECT_METHODS
from .user_object import OPERATIONS_OF_C, SCALAR_CONVERSIONS, UserObjectVariable, payload_base


class EnumVariable(UserObjectVariable):
    """An enum member, guarded by identity."""

    __slots__ = ()
    is_guarded_by_identity = True

    def as_constant(self) -> Any:
        return self.value

    def as_fx(self) -> tuple[Any, Any]:
        value = self.value if self.scalar() is None else self.scalar()
        return value, value

    def scalar(self) -> Any:
        base = payload_base(self.cls)
        return SCALAR_CONVERSIONS[base](self.value) if base in SCALAR_CONVERSIONS else None

    def key(self) -> Any:
        standard = (object, enum.Enum, payload_base(self.cls))
        for name in ("__hash__", "__eq__"):
            if not any(class_lookup(self.cls, name) is getattr(each, name, None) for each in standard):
                return super().key()
        return self.value

    def python_value(self, tx: Translator) -> Any:
        """C functions call the member's methods, so none of those may be user code, which has to be traced."""
        if any(is_user_code(tx.lookup(self.cls, name)) for name in OPERATIONS_OF_C):
            unsupported(UnsupportedValue(self.describe(), "its class overrides methods that C functions call"))
        return self.value

    def is_plain(self, tx: Translator) -> bool:
        return is_inert(self.value) and not has_user_text(tx, self.cls)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        if has_user_text(tx, self.cls) or name == "__repr__" and not is_inert(own_enum_value(self.value)):
            return super().text(tx, name)
        return tx.make(tx.evaluate(TEXTS[name], (self.value,)))

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        if has_user_text(tx, self.cls):
            return super().format(tx, spec)
        return tx.make(tx.evaluate(format, (self.value, tx.python_value(spec))))

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        is_inherited = class_lookup(self.cls, name) is class_lookup(enum.Enum, name)
        if name in ("value", "name", "_value_", "_name_") and is_inherited:
            source = tx.guards.const(self.value).instance_item(f"_{name.strip('_')}_")
            return LazyVariable(tx.attempt, getattr(self.value, name), source).realize()
        return super().getattr(tx, name)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self._fold_method(tx, method_of(symbol), other) or super().compare(tx, symbol, other)

    def binary(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if isinstance(self.value, str) and _overrides(tx, other, method_of(symbol, "r")):
            return None  # str concatenation is a sequence slot, which CPython tries after the number methods
        result = self._fold_method(tx, method_of(symbol, "r" if reflected else ""), other)
        return result or super().binary(tx, symbol, other, reflected)

    def _fold_method(self, tx: Translator, name: str, other: VariableTracker) -> VariableTracker | None:
        """The result of a binary method of the builtin type that the enum mixes in (``IntEnum``), for a constant."""
        raw = tx.lookup(self.cls, name)
        if not other.is_constant() or raw is MISSING or is_user_defined(raw) or raw is getattr(object, name, None):
            return None
        result = tx.fold(raw, [_read_by_c(each) for each in (self, other)])
        return None if result is NotImplemented else tx.make(result)

    def truth(self, tx: Translator) -> bool:
        method = tx.lookup(self.cls, "__bool__")
        if is_user_defined(tx.lookup(self.cls, "__len__") if method is MISSING else method):
            return super().truth(tx)
        return bool(tx.fold(bool, (self.value,)))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if isinstance(self.value, (str, int)) and name not in OBJECT_METHODS:
            return tx.fold_call(getattr(self.value, name), args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: Codegen) -> None:
        cg.load_const(self.value)


def _read_by_c(operand: VariableTracker) -> Any:
    """What a method of a builtin number or string reads of an operand: a member's own number or string."""
    value = operand.scalar() if isinstance(operand, EnumVariable) else None
    return operand.as_constant() if value is None else value


def _overrides(tx: Translator, operand: VariableTracker, name: str) -> bool:
    """Whether an operand is a member of an enum that has this method in Python."""
    return isinstance(operand, EnumVariable) and is_user_defined(tx.lookup(operand.cls, name))


def is_user_code(raw: object) -> bool:
    """Whether a special method is in Python, outside of the standard library."""
    return is_user_defined(raw) and not (isinstance(raw, types.FunctionType) and code_origin.is_standard(raw.__code__))


wraps_if(lambda value: issubclass(type(value), enum.Enum), order=4)(EnumVariable.by_identity)
