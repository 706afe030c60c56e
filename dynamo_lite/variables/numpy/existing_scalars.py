"""Pre-existing numpy scalars: those that a program keeps, and those that each call passes anew."""

from __future__ import annotations

from typing import Any

import torch

from dynamo_lite.records.graph import tensor_of_scalar
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, Translator, VariableTracker
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .arrays import NdarrayVariable
from .scalars import SCALARS, NumpyScalarVariable, is_cast


class ExistingScalar(NumpyScalarVariable):
    """A scalar that has been the same so far: a constant, whose bits are guarded where its value is used. Beside a
    tensor, an argument is data from the first call on, since a call most likely passes another one."""

    __slots__ = ("data", "real")
    is_loaded_as_constant = False

    def __init__(self, real: Any, source: Source) -> None:
        self.source: Source = source
        self.real = real
        self.data: NdarrayVariable | None = None

    def as_tensor_operand(
        self, tx: Translator, tensor: VariableTracker, symbol: str, reflected: bool = False
    ) -> VariableTracker:
        assert isinstance(tensor, TensorVariable)
        is_data = tx.attempt.shapes.varies_by_call(self.source)
        if not is_data or not is_cast(self.real.dtype, tensor.fake.dtype, symbol, reflected):
            return self
        if self.data is None:
            self.data = _as_data(tx.attempt, self.real, self.source)
        return self.data.as_tensor_operand(tx, tensor, symbol, reflected)

    @property
    def value(self) -> Any:
        self.source.check("bits", self.real)
        return self.real

    def python_type(self) -> type:
        return type(self.real)

    def describe(self) -> str:
        return repr(self.real)


def _as_data(attempt: Attempt, value: object, source: Source) -> NdarrayVariable:
    """A scalar as a tensor without dimensions among the graph's inputs."""
    given = attempt.graph.input(source, tensor_of_scalar(value), tensor_of_scalar)
    return NdarrayVariable(TensorVariable(given.node, given.fake, torch.Tensor), True, source)


@wraps_type(*SCALARS)
def _wrap_scalar(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    """What calls pass is another object in each call. What the program keeps (globals) is guarded by identity, until it
    has changed. A scalar that has differed between calls is data: where Python needs its value, the graph breaks."""
    is_changed = attempt.shapes.has_changed(source, value)
    if not source.local_rooted and not is_changed:
        return NumpyScalarVariable.by_identity(attempt, value, source)
    source.check("type", type(value))
    if not is_changed:
        return ExistingScalar(value, source)
    data = _as_data(attempt, value, source)
    is_same_type = data.python_type() is type(value)
    return data if is_same_type else attempt.values.opaque(value, source, "a numpy scalar of a type that torch lacks")
