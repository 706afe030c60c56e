"""numpy: what is known of an array in a graph."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .targets import numpy_dtype


class ArrayVariable(VariableTracker):
    """An array whose memory is that of a tensor of the graph, but for axes that go backwards (`numpy_flips`).
    ``scalar``: it is a numpy scalar."""

    __slots__ = ("memory", "scalar", "flips")

    def __init__(
        self,
        memory: TensorVariable,
        scalar: bool = False,
        source: Source | None = None,
        flips: tuple[int, ...] = (),
    ) -> None:
        self.source = source
        self.memory = memory
        self.scalar = scalar
        self.flips = flips

    @property
    def fake(self) -> torch.Tensor:
        """The facts of its memory."""
        return self.memory.fake

    def python_type(self) -> type:
        return numpy_dtype(self.fake.dtype).type if self.scalar else numpy.ndarray

    def describe(self) -> str:
        return f"a numpy array of shape {tuple(self.fake.shape)}"

    def as_index(self, tx: Any) -> VariableTracker:
        return self if self.scalar or self.flips else self.memory

    def items(self, tx: Any) -> TensorVariable:
        """What computes with it: its memory, or a flipped copy."""
        return turned(tx, self.memory, self.flips)  # type: ignore[return-value]


def turned(tx: Any, tensor: VariableTracker, axes: tuple[int, ...]) -> VariableTracker:
    """A copy that goes the other way along these axes; without any the tensor itself."""
    return record(tx, "call_function", torch.flip, [tensor, tx.make(axes)], {}) if axes else tensor
