"""Queries about a tensor or the thread whose result the guards determine already."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

_functorch: Any = torch._C._functorch


def _outside_transforms(graph: GraphBuilder, name: str) -> None:
    """Break the graph in a function that torch.func transforms, where tensors may be wrapped, and in a backward, which
    may run under a transform."""
    is_inside = any(body.transform or body.is_backward for body in graph.scope.nesting)
    if is_inside or torch._C._are_functorch_transforms_active():
        unsupported(UnknownCall(f"{name}()", "it is called in a function that torch.func transforms"))


def _of_unwrapped(name: str, result: object, tx: Translator, of: VariableTracker) -> VariableTracker:
    if not isinstance(of, TensorVariable):
        unsupported(UnknownCall(f"{name}()", "its argument is not a tensor of the graph"))
    _outside_transforms(tx.graph, name)
    return ConstantVariable(result)


_ABOUT_WRAPPED_TENSORS = {
    **dict.fromkeys(("is_batchedtensor", "is_gradtrackingtensor", "is_functorch_wrapped_tensor"), False),
    **dict.fromkeys(("is_functionaltensor", "is_legacy_batchedtensor"), False),
    **dict.fromkeys(("maybe_get_level", "maybe_get_bdim"), -1),
}
"""Queries about a tensor that a transform may have wrapped, and their results for others. Wrapped tensors are never
inputs of a graph."""

for _name, _result in _ABOUT_WRAPPED_TENSORS.items():
    models(getattr(_functorch, _name))(functools.partial(_of_unwrapped, _name, _result))


def _without_transforms(name: str, tx: Translator) -> VariableTracker:
    _outside_transforms(tx.graph, name)
    return ConstantVariable(None)


for _name in ("maybe_current_level", "peek_interpreter_stack"):
    models(getattr(_functorch, _name))(functools.partial(_without_transforms, _name))


_unwrap_optional: Callable[..., object] = vars(torch.jit)["_unwrap_optional"]


@models(_unwrap_optional)
def _unwrapped_optional(tx: Translator, x: VariableTracker) -> VariableTracker:
    if tx.is_none(x):
        tx.raise_error(AssertionError, "Unwrapping null optional")
    return x
