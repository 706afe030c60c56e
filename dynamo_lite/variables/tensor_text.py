"""Texts of tensors' values: nobody knows them while tracing, and often nobody asks (a message for an error that is not
raised). They are made after the graph, from its results, where they are still wanted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import torch

from ..reasons import DataDependentValue
from .base import NotConstant, VariableTracker, unsupported
from .constant import ConstantVariable

_SAMPLES = {torch.bool: True, **dict.fromkeys((torch.complex64, torch.complex128), 1j)}


class TensorTextVariable(VariableTracker):
    """Known texts, and tensors with the function that makes a text of each."""

    __slots__ = ("parts", "writes")

    def __init__(self, tx: Any, parts: list[Any], writes: int) -> None:
        self.source = None
        self.parts = parts
        self.writes = writes
        """How many writes into tensors the graph had seen."""
        tx.attempt.texts[self] = tx.attempt.root_step

    def python_type(self) -> type:
        return str

    def describe(self) -> str:
        return "a text of a tensor's value"

    def truth(self, tx: Any) -> bool:
        return True  # no value's text is empty

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> NoReturn:
        unsupported(DataDependentValue(f"`{symbol}` of {self.describe()}"))

    def text(self, tx: Any, name: str) -> VariableTracker:
        return self if name == "__str__" else super().text(tx, name)

    def format(self, tx: Any, spec: VariableTracker) -> VariableTracker:
        return tx.make(self.python_value(tx)) if tx.truth(spec) else self

    def reconstruct(self, cg: Any) -> None:
        if cg.attempt.graph.writes != self.writes:
            raise NotConstant(self.describe())
        for part in self.parts:
            if isinstance(part, str):
                cg.load_const(part)
            else:
                function, tensor, rest = part
                cg.call(function, [partial(cg.load, tensor), *(partial(cg.load_const, each) for each in rest)])
        cg.op("BUILD_STRING", len(self.parts))


def text_of_tensor(tx: Any, tensor: Any, function: Callable[..., str], *rest: str) -> VariableTracker | None:
    """``str``, ``repr`` or ``format`` of a tensor; None where it may raise or ask the program's code."""
    if tensor.cls not in (torch.Tensor, torch.nn.Parameter) or tx.graph.bodies or tensor.fake.is_inference():
        return None
    if any(rest) and not _fits(tensor, rest[0]):
        return None
    return TensorTextVariable(tx, [(function, tensor, rest)], tx.graph.writes)


def _fits(tensor: Any, spec: str) -> bool:
    """Whether any value of a tensor can be formatted so."""
    if tensor.fake.ndim or tensor.cls is not torch.Tensor or "c" in spec:
        return False
    dtype = tensor.fake.dtype
    sample = _SAMPLES.get(dtype, 1.5 if dtype.is_floating_point else 1)
    try:
        format(sample, spec)
    except ValueError:
        return False
    return True


def joined(tx: Any, parts: list[VariableTracker]) -> VariableTracker | None:
    """Texts one after the other; None where one is neither known nor of tensors."""
    found: list[Any] = []
    writes = tx.graph.writes
    for part in parts:
        if isinstance(part, ConstantVariable):
            found.append(part.value)
        elif isinstance(part, TensorTextVariable) and part.writes == writes:
            found.extend(part.parts)
        else:
            return None
    return TensorTextVariable(tx, found, writes)
