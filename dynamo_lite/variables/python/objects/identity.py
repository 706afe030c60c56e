"""Numbers that say which object or thread it is: known as keys and for equality before they are by value."""

from __future__ import annotations

import _thread
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable
from numbers import Number
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation, UnsupportedValue
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.keys import AddressKey
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber

from .user_object import UserObjectVariable


def _unlike(symbol: str, other: VariableTracker) -> VariableTracker | None:
    """The answer where the other operand is a constant that is no number."""
    if symbol in ("==", "!=") and isinstance(other, ConstantVariable) and not isinstance(other.value, Number):
        return ConstantVariable(symbol == "!=")
    return None


class _NumberOf(VariableTracker):
    """A number that says what something is: it is guarded where it is asked for."""

    __slots__ = ()

    def python_type(self) -> type:
        return int

    def truth(self, tx: Translator) -> bool:
        return True

    @abstractmethod
    def _number(self, tx: Translator) -> VariableTracker: ...

    @abstractmethod
    def _is_same(self, tx: Translator, other: Any) -> bool:
        """Whether another one of its kind is the same number."""

    def python_value(self, tx: Translator) -> Any:
        return tx.python_value(self._number(tx))

    def index(self, tx: Translator, message: str) -> Any:
        return self._number(tx).index(tx, message)

    def converted(self, tx: Translator, function: Callable[..., Any], methods: Iterable[str]) -> VariableTracker:
        return self._number(tx).converted(tx, function, methods)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return self._number(tx).text(tx, name)

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        return self._number(tx).format(tx, spec)

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        return tx.make(tx.fold(function, (self.python_value(tx),)))  # type: ignore[no-any-return]

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        number = self._number(tx)
        return tx.binary(symbol, *((other, number) if reflected else (number, other)))  # type: ignore[no-any-return]

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol in ("==", "!=") and type(other) is type(self):
            return ConstantVariable(self._is_same(tx, other) == (symbol == "=="))
        if isinstance(other, ConstantVariable) and not isinstance(other.value, Number):
            return _unlike(symbol, other)
        return tx.compare(symbol, self._number(tx), other)  # type: ignore[no-any-return]


class IdVariable(_NumberOf):
    """``id(x)``: good as a key and for equality of objects. Where its number is asked for, that is guarded to be this
    very object."""

    __slots__ = ("of",)

    def __init__(self, of: VariableTracker) -> None:
        self.source = None
        self.of = of

    def key(self) -> Any:
        return AddressKey(self.of.identity(), self.of.source is not None)

    def number_as_key(self, tx: Translator) -> VariableTracker | None:
        """Beside keys that are numbers already."""
        return self._number(tx) if tx.attempt.values.addresses.as_numbers and self.of.source is not None else None

    def guard_key(self, tx: Translator) -> None:
        tx.guard_distinct(self.of)

    def _number(self, tx: Translator) -> VariableTracker:
        of = self.of.realize()
        if isinstance(of, ConstantVariable):
            return ConstantVariable(id(of.value))
        value, source = getattr(of, "value", None), of.source
        stays = of.is_guarded_by_identity or isinstance(
            of, UserObjectVariable
        )  # what else is given is given anew each time
        if value is None or not (of.is_loaded_as_constant if source is None else stays or source.kind != "local"):
            unsupported(UnsupportedValue(self.describe(), f"it says where {of.describe()} is, which may be another"))
        if source is not None:
            source.check("id", value)
        return ConstantVariable(id(value))

    def _is_same(self, tx: Translator, other: IdVariable) -> bool:
        return tx.identical(self.of, other.of)  # type: ignore[no-any-return]

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(id, [lambda: cg.load(self.of)])


@models(id)
def _id(tx: Translator, of: VariableTracker) -> VariableTracker:
    if isinstance(of, SymbolicNumber) or (isinstance(of, ConstantVariable) and of.identity() is of):
        unsupported(UnsupportedOperation("id()", of.describe()))
    return IdVariable(of)


class _Here(threading.local):
    """What a guard reads to tell which thread it is on."""

    def __init__(self) -> None:
        self.thread = _thread.get_ident()


_HERE = _Here()


class ThreadIdVariable(_NumberOf):
    """``threading.get_ident()``: as a key among others that are no numbers it is that of whichever thread calls."""

    __slots__ = ()

    def key(self) -> Any:
        return AddressKey(ThreadIdVariable, True)

    def number_as_key(self, tx: Translator) -> VariableTracker | None:
        return self._number(tx) if tx.attempt.values.addresses.as_numbers else None

    def _number(self, tx: Translator) -> VariableTracker:
        number = _HERE.thread
        tx.guards.const(_HERE).child("thread_dict").child("dict_item", "thread").check("equals", number)
        return ConstantVariable(number)

    def _is_same(self, tx: Translator, other: ThreadIdVariable) -> bool:
        return True

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(_thread.get_ident, [])


@models(_thread.get_ident)
def _get_ident(tx: Translator) -> VariableTracker:
    return ThreadIdVariable()
