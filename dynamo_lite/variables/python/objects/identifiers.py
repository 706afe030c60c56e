"""``id()`` and ``threading.get_ident()``: ints that identify an object or a thread.

As dict keys and in comparisons for equality, they work without their value. Their value, when needed, is guarded.
"""

from __future__ import annotations

import _thread
import threading
from abc import abstractmethod
from numbers import Number
from typing import Any

from dynamo_lite.insight.break_reasons import AddressUsed
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import AddressKey
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber

from .user_object import UserObjectVariable


class _IdentifierVariable(VariableTracker):
    """Base class: an int whose value is unknown until an operation needs it."""

    __slots__ = ()

    def python_type(self) -> type:
        return int

    def truth(self, tx: Translator) -> bool:
        return True

    @abstractmethod
    def _number(self, tx: Translator) -> VariableTracker:
        """The value, guarded."""

    @abstractmethod
    def _equals(self, tx: Translator, other: Any) -> bool:
        """Whether it equals another identifier of its class."""

    def python_value(self, tx: Translator) -> Any:
        return tx.python_value(self._number(tx))

    def index(self, tx: Translator, message: str) -> Any:
        return self._number(tx).index(tx, message)

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        return self._number(tx).format(tx, spec)

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        return tx.make(tx.fold(function, (self.python_value(tx),)))

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        number = self._number(tx)
        return tx.binary(symbol, other, number) if reflected else tx.binary(symbol, number, other)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol in ("==", "!=") and type(other) is type(self):
            return ConstantVariable(self._equals(tx, other) == (symbol == "=="))
        if isinstance(other, ConstantVariable) and not isinstance(other.value, Number):
            return ConstantVariable(symbol == "!=") if symbol in ("==", "!=") else None
        return tx.compare(symbol, self._number(tx), other)


class IdVariable(_IdentifierVariable):
    """``id(obj)``. Where its value is needed, a guard requires this very object."""

    __slots__ = ("obj",)

    def __init__(self, obj: VariableTracker) -> None:
        self.source = None
        self.obj = obj

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

    def _equals(self, tx: Translator, other: IdVariable) -> bool:
        return tx.identical(self.obj, other.obj)

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(id, [lambda: cg.load(self.obj)])


@models(id)
def _id(tx: Translator, obj: VariableTracker) -> VariableTracker:
    if isinstance(obj, SymbolicNumber) or (isinstance(obj, ConstantVariable) and obj.identity() is obj):
        unsupported(AddressUsed(obj.describe()))
    return IdVariable(obj)


class _CurrentThread(threading.local):
    """Guards read the thread's id from here."""

    def __init__(self) -> None:
        self.ident = _thread.get_ident()


_CURRENT_THREAD = _CurrentThread()


class ThreadIdVariable(_IdentifierVariable):
    """``threading.get_ident()``. As a dict key, it stands for whichever thread runs the call."""

    __slots__ = ()

    def key(self) -> Any:
        return AddressKey(ThreadIdVariable, True)

    def number_as_key(self, tx: Translator) -> VariableTracker | None:
        return self._number(tx) if tx.attempt.values.addresses.as_numbers else None

    def _number(self, tx: Translator) -> VariableTracker:
        ident = _CURRENT_THREAD.ident
        tx.guards.const(_CURRENT_THREAD).child("thread_dict").child("dict_item", "ident").check("equals", ident)
        return ConstantVariable(ident)

    def _equals(self, tx: Translator, other: ThreadIdVariable) -> bool:
        return True

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(_thread.get_ident, [])


@models(_thread.get_ident)
def _get_ident(tx: Translator) -> VariableTracker:
    return ThreadIdVariable()
