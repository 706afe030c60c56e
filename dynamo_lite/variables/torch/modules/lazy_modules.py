"""Parameters and buffers of lazy modules (``nn.LazyLinear``): they have no data until ``materialize`` is called."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedValue
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.torch.autograd.created_leaves import try_replace_data
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

_MATERIALIZED: dict[type, type] = {UninitializedParameter: torch.nn.Parameter, UninitializedBuffer: torch.Tensor}
_METADATA = frozenset({"requires_grad", "device", "dtype", "is_leaf", "__class__"})
"""Attributes that an uninitialized tensor has."""


class LazyTensorVariable(TensorVariable):
    """A pre-existing tensor that was uninitialized. `materialize` gives it data and another class."""

    __slots__ = ()

    @property
    def _is_uninitialized(self) -> bool:
        return self.cls in _MATERIALIZED

    def describe(self) -> str:
        return "an uninitialized parameter or buffer" if self._is_uninitialized else super().describe()

    def as_fx(self) -> tuple[Any, Any]:
        if self._is_uninitialized:
            unsupported(UnsupportedValue(self.describe(), "an operator can't take it"))
        return super().as_fx()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if not self._is_uninitialized or name in _METADATA:
            return super().getattr(tx, name)
        if name in ("materialize", "cls_to_become"):
            return tx.generic_getattr(self, name)
        unsupported(UnsupportedAttribute(self.describe(), name))

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if self._is_uninitialized:
            unsupported(UnsupportedAttribute(self.describe(), name, "writing it is not modelled"))
        super().setattr(tx, name, value)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if self._is_uninitialized:
            unsupported(UnsupportedAttribute(self.describe(), name))
        return super().call_method(tx, name, args, kwargs)


@models(UninitializedParameter.materialize)
def _materialize(
    tx: Translator,
    empty: VariableTracker,
    shape: VariableTracker,
    device: VariableTracker | None = None,
    dtype: VariableTracker | None = None,
) -> VariableTracker:
    if not isinstance(empty, LazyTensorVariable) or empty.cls not in _MATERIALIZED:
        unsupported(UnsupportedAttribute(empty.describe(), "materialize", "it is initialized already"))
    options = {
        name: tx.make(getattr(empty.fake, name)) if value is None or tx.is_none(value) else value
        for name, value in {"device": device, "dtype": dtype}.items()
    }
    data = record(tx, "call_function", torch.empty, [shape], options)
    if not isinstance(data, TensorVariable) or not try_replace_data(tx, empty, data, _MATERIALIZED[empty.cls]):
        unsupported(UnsupportedAttribute(empty.describe(), "materialize", "its data can't be replaced in the graph"))
    return ConstantVariable(None)


@wraps_type(UninitializedParameter, UninitializedBuffer)
def _wrap_lazy(attempt: Attempt, value: torch.Tensor, source: Source) -> VariableTracker:
    with torch._C.DisableTorchFunctionSubclass(), unset_fake_temporarily():
        plain = value.data.requires_grad_(value.requires_grad)
    created = attempt.graph.input(source, plain)
    attempt.guards.tensor(source, plain, type(value))
    tensor = LazyTensorVariable(created.node, created.fake, type(value), source, value)
    attempt.values.fakes[id(created.fake)] = tensor
    return tensor
