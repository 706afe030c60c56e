"""``id()`` and ``threading.get_ident()``.

As a dict key and in comparisons for equality, a result of ``id()`` works without its value. The value is guarded.
"""

from __future__ import annotations

import _thread
import threading
from numbers import Number
from typing import Any

from dynamo_lite.insight.break_reasons import AddressUsed
from dynamo_lite.plan.rows import Value
from dynamo_lite.variables.core.base import Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import AddressKey
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber

from .user_object import UserObjectVariable


class IdVariable(VariableTracker):
    """``id(obj)``. Where its value is needed, a guard requires this very object."""

    __slots__ = ("obj",)
    exact_type = int

    def __init__(self, obj: VariableTracker) -> None:
        self.source = None
        self.obj = obj

    def truth(self, tx: Translator) -> bool:
        return True

    def key(self) -> Any:
        return AddressKey(self.obj.identity(), self.obj.source is not None)

    def number_as_key(self, tx: Translator) -> VariableTracker | None:
        """The value, if the dict has keys that are numbers already."""
        return self._number(tx) if tx.attempt.values.addresses.as_numbers and self.obj.source is not None else None

    def guard_key(self, tx: Translator) -> None:
        tx.guard_distinct(self.obj)

    def _number(self, tx: Translator) -> VariableTracker:
        obj = self.obj.realize()
        if isinstance(obj, ConstantVariable):
            return ConstantVariable(id(obj.value))
        value, source = obj.value, obj.source
        if source is None:
            is_invariant = obj.is_loaded_as_constant
        else:  # a local of another kind is often another object in the next call
            is_invariant = obj.is_guarded_by_identity or isinstance(obj, UserObjectVariable) or source.kind != "local"
        if value is None or not is_invariant:
            unsupported(AddressUsed(obj.describe()))
        if source is not None:
            source.check("id", value)
        return ConstantVariable(id(value))

    def python_value(self, tx: Translator) -> Any:
        return tx.python_value(self._number(tx))

    def index(self, tx: Translator, message: str) -> Any:
        return self._number(tx).index(tx, message)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol in ("==", "!=") and isinstance(other, IdVariable):
            return ConstantVariable(tx.identical(self.obj, other.obj) == (symbol == "=="))
        if isinstance(other, ConstantVariable) and not isinstance(other.value, Number):
            return ConstantVariable(symbol == "!=") if symbol in ("==", "!=") else None
        return tx.compare(symbol, self._number(tx), other)

    def construct(self, plan: Planner) -> Value:
        return plan.call(id, self.obj)


@models(id)
def _id(tx: Translator, obj: VariableTracker) -> VariableTracker:
    if isinstance(obj, SymbolicNumber) or (isinstance(obj, ConstantVariable) and obj.identity() is obj):
        unsupported(AddressUsed(obj.describe()))
    return IdVariable(obj)


_CURRENT_THREAD = threading.local()
"""Guards read the thread's id from here."""


@models(_thread.get_ident)
def _get_ident(tx: Translator) -> VariableTracker:
    ident = _CURRENT_THREAD.ident = _thread.get_ident()
    tx.guards.const(_CURRENT_THREAD).child("thread_dict").child("dict_item", "ident").check("equals", ident)
    tx.attempt.values.addresses.note(ident)  # beside it, results of id() are keys by their value
    return ConstantVariable(ident)
