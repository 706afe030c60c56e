"""The modules ``inspect`` and ``typing``: what is known of functions and types."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any

from ..attributes import MethodVariable
from ..base import VariableTracker
from ..constant import ConstantVariable
from ..mapping import DictVariable
from ..registry import models


class SignatureVariable(VariableTracker):
    """What ``inspect.signature`` returns for a known function."""

    __slots__ = ("value",)

    def __init__(self, value: inspect.Signature) -> None:
        self.source = None
        self.value = value

    def python_type(self) -> type:
        return inspect.Signature

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name == "parameters":
            return DictVariable({key: tx.make(parameter) for key, parameter in self.value.parameters.items()})
        return super().getattr(tx, name)

    def reconstruct(self, cg: Any) -> None:
        cg.load_const(self.value)


@models(inspect.signature)
def _signature(tx: Any, of: VariableTracker) -> VariableTracker:
    if isinstance(of, MethodVariable):
        value = tx.fold(inspect.signature, (types.MethodType(tx.python_value(of.function), object()),))
    else:
        value = tx.fold(inspect.signature, (tx.python_value(of),))
    return SignatureVariable(value)


@models(inspect.isfunction)
def _isfunction(tx: Any, of: VariableTracker) -> VariableTracker:
    return ConstantVariable(of.python_type() is types.FunctionType)


@models(typing.cast)
def _cast(tx: Any, kind: VariableTracker, value: VariableTracker) -> VariableTracker:
    return value
