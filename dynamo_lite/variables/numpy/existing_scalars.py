"""Pre-existing numpy scalars: those that a program keeps, and those that each call passes anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite.records.graph import tensor_of_scalar
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import VariableTracker, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Translator
from dynamo_lite.variables.python.objects.user_object import OpaqueVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .arrays import NdarrayVariable
from .scalars import SCALARS, NumpyScalarVariable, is_cast


class _Input:
    """A numpy scalar as a tensor without dimensions among the graph's inputs."""

    __slots__ = ("source", "real", "memory")

    def __init__(self, source: Source, real: Any) -> None:
        self.source = source
        self.real = real
        self.memory: TensorVariable | None = None

    def tensor(self, tx: Translator) -> TensorVariable:
        if self.memory is None:
            given = tx.graph.input(self.source, tensor_of_scalar(self.real), tensor_of_scalar)
            self.memory = TensorVariable(given.node, given.fake, torch.Tensor)
        return self.memory

    def is_cast_by(self, tx: Translator, other: VariableTracker, symbol: str, reflected: bool) -> bool:
        """Whether ``symbol`` of a tensor only casts the number to the tensor's dtype."""
        if tx.graph.bodies or not isinstance(other, TensorVariable):
            return False
        return is_cast(self.real.dtype, other.fake.dtype, symbol, reflected)

    def cast(self, tx: Translator, to: VariableTracker) -> VariableTracker:
        """The number as a scalar tensor of the dtype of another tensor."""
        assert isinstance(to, TensorVariable)
        return record(tx, "to", [self.tensor(tx), ConstantVariable(to.fake.dtype)], {})


class ExistingScalar(NumpyScalarVariable):
    """A scalar that has been the same so far: a constant, whose bits are guarded where its value is used.

    ``passed``: it is an argument of the frame. In an operation with a tensor it becomes an input of the graph."""

    __slots__ = ("number", "passed")
    is_loaded_as_constant = False

    def __init__(self, value: Any, source: Source) -> None:
        self.source: Source = source
        self.number = _Input(source, value)
        self.passed = source.kind == "local"

    @property
    def value(self) -> Any:
        self.source.check("bits", self.number.real)
        return self.number.real

    def python_type(self) -> type:
        return type(self.number.real)

    def describe(self) -> str:
        return repr(self.number.real)

    def as_tensor_operand(
        self, tx: Translator, tensor: VariableTracker, symbol: str, reflected: bool = False
    ) -> VariableTracker:
        is_cast_ = self.passed and self.number.is_cast_by(tx, tensor, symbol, reflected)
        return self.number.cast(tx, tensor) if is_cast_ else self

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        if not reflected and self.passed and self.number.is_cast_by(tx, other, symbol, True):
            return None  # the tensor's own operator takes it
        return super().binary(tx, symbol, other, reflected)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if self.passed and self.number.is_cast_by(tx, other, symbol, False):
            return None
        return super().compare(tx, symbol, other)


class ChangingScalar(OpaqueVariable):
    """A scalar that has differed between calls, so it is data: in an operation with a tensor, and in arithmetic of
    floats, it is an input of the graph. If Python needs its value, the graph breaks."""

    __slots__ = ("number",)
    number: _Input

    def as_tensor_operand(
        self, tx: Translator, tensor: VariableTracker, symbol: str, reflected: bool = False
    ) -> VariableTracker:
        return self.number.cast(tx, tensor) if self.number.is_cast_by(tx, tensor, symbol, reflected) else self

    def _array(self, tx: Translator) -> NdarrayVariable:
        return NdarrayVariable(self.number.tensor(tx), True)

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        """Arithmetic that torch does as numpy does, bit for bit."""
        if isinstance(other, ChangingScalar) and other._is_float():
            other = other._array(tx)
        if not self._is_float() or symbol not in ("+", "-", "*", "/"):
            return None
        if not isinstance(other, (ConstantVariable, NumpyScalarVariable, NdarrayVariable)):
            return None
        return self._array(tx).binary(tx, symbol, other, reflected)

    def unary(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker | None:
        return self._array(tx).unary(tx, function) if self._is_float() else None

    def _is_float(self) -> bool:
        return self.value.dtype in ("float32", "float64")


@wraps_type(*SCALARS)
def _wrap_scalar(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    """What calls pass is another object in each call. What the program keeps (globals) is guarded by identity."""
    if not source.local_rooted:
        return NumpyScalarVariable.by_identity(attempt, value, source)
    source.check("type", type(value))
    if not attempt.shapes.has_changed(source, value):
        return ExistingScalar(value, source)
    found = ChangingScalar(value, source, "a numpy scalar")
    found.number = _Input(source, value)
    return found
