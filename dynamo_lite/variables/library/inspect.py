"""The modules ``inspect`` and ``typing``: what is known of functions and types."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any

from ...source import Source
from ..attributes import MethodVariable
from ..base import VariableTracker, wraps_type
from ..constant import ConstantVariable
from ..mapping import DictVariable, MappingProxyVariable
from ..registry import models


class SignatureVariable(VariableTracker):
    """What ``inspect.signature`` returns for a known function. Nobody changes one."""

    __slots__ = ("value", "_parameters")

    def __init__(self, value: inspect.Signature, source: Source | None = None) -> None:
        self.source = source
        self.value = value
        self._parameters: MappingProxyVariable | None = None

    def python_type(self) -> type:
        return inspect.Signature

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        if name == "parameters":
            if self._parameters is None:
                found = DictVariable({key: tx.make(each) for key, each in self.value.parameters.items()})
                self._parameters = MappingProxyVariable(found)
            return self._parameters
        return super().getattr(tx, name)

    def reconstruct(self, cg: Any) -> None:
        cg.load_const(self.value)


@wraps_type(inspect.Signature)
def _wrap_signature(attempt: Any, value: inspect.Signature, source: Source) -> VariableTracker:
    if source.kind != "const":
        source.check("id", value)
    return SignatureVariable(value, source)


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
