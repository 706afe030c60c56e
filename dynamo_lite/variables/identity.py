"""Numbers that say which object or thread it is: known as keys and for equality, not by value."""

from __future__ import annotations

import _thread
from numbers import Number
from typing import Any

from ..reasons import UnsupportedOperation
from .base import VariableTracker, unsupported
from .constant import ConstantVariable
from .registry import models
from .symbolic import SymbolicNumber


def _unlike(symbol: str, other: VariableTracker) -> VariableTracker | None:
    """The answer where the other operand is a constant that is no number."""
    if symbol in ("==", "!=") and isinstance(other, ConstantVariable) and not isinstance(other.value, Number):
        return ConstantVariable(symbol == "!=")
    return None


class IdVariable(VariableTracker):
    """``id(x)``: good as a key and for equality; its number is that of each call."""

    __slots__ = ("of",)

    def __init__(self, of: VariableTracker) -> None:
        self.source = None
        self.of = of

    def python_type(self) -> type:
        return int

    def truth(self, tx: Any) -> bool:
        return True

    def key(self) -> Any:
        return IdVariable, self.of.identity()

    def guard_key(self, tx: Any) -> None:
        tx.guard_different(self.of)

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol in ("==", "!=") and isinstance(other, IdVariable):
            return ConstantVariable(tx.identical(self.of, other.of) == (symbol == "=="))
        return _unlike(symbol, other)

    def reconstruct(self, cg: Any) -> None:
        cg.call(id, [lambda: cg.load(self.of)])


@models(id)
def _id(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, SymbolicNumber) or (isinstance(of, ConstantVariable) and of.identity() is of):
        unsupported(UnsupportedOperation("id()", of.describe()))
    return IdVariable(of)


class ThreadIdVariable(VariableTracker):
    """``threading.get_ident()``."""

    __slots__ = ()

    def python_type(self) -> type:
        return int

    def truth(self, tx: Any) -> bool:
        return True

    def key(self) -> Any:
        return ThreadIdVariable

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if symbol in ("==", "!=") and isinstance(other, ThreadIdVariable):
            return ConstantVariable(symbol == "==")
        return _unlike(symbol, other)

    def reconstruct(self, cg: Any) -> None:
        cg.call(_thread.get_ident, [])


@models(_thread.get_ident)
def _get_ident(tx: Any) -> VariableTracker:
    return ThreadIdVariable()
