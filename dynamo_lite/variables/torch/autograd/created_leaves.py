"""Parameters created during tracing, and the memory of tensors.

A graph can't return a leaf: its results have a ``grad_fn``. So a leaf that was created in the graph stays in it; where
one leaves the graph, the graph breaks and CPython creates it.
"""

from __future__ import annotations

import torch
from torch.nn import Parameter

from dynamo_lite.insight.break_reasons import ParameterCreated, UnknownCall
from dynamo_lite.records.graph import DENSE, GraphBuilder
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.torch.tensors.fake_computation import compute
from dynamo_lite.variables.torch.tensors.known_tensors import GraphTensor, KnownTensors
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable


def created_aliases(tx: Translator, fake: torch.Tensor) -> list[GraphTensor]:
    """The tensors created so far that share this one's storage."""
    known = {id(each): each for each in tx.attempt.state(KnownTensors).all()}
    return [each for each in known.values() if share_memory(each.fake, fake)]


def spans_storage(graph: GraphBuilder, fake: torch.Tensor) -> bool:
    """Whether a tensor is all of its storage, as a new one of its sizes and strides would be."""
    numbers = (*fake.shape, *fake.stride(), fake.storage_offset())
    if any(isinstance(each, torch.SymInt) and graph.symbols.is_data_dependent(each) for each in numbers):
        return False
    if fake.is_conj() or fake.is_neg() or torch._debug_has_internal_overlap(fake) != DENSE or fake.storage_offset():
        return False
    last = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride()))
    needed = (last + 1) * fake.element_size() if fake.numel() else 0
    return bool(fake.untyped_storage().nbytes() == needed)


@models(torch.Tensor._make_subclass)
def _make_subclass(
    tx: Translator, cls: VariableTracker, data: VariableTracker, require_grad: VariableTracker | None = None
) -> VariableTracker:
    """``Tensor._make_subclass``, which ``nn.Parameter`` calls."""
    kind = tx.python_value(cls)
    requires_grad = require_grad is not None and tx.truth(require_grad)
    if kind is not Parameter or not isinstance(data, TensorVariable):
        unsupported(UnknownCall("Tensor._make_subclass()", "only plain parameters can be created while tracing"))
    if requires_grad and not (data.fake.is_floating_point() or data.fake.is_complex()):
        unsupported(ParameterCreated(data.describe(), "a tensor of integers can't require gradients"))
    is_plain = not (data.has_torch_function or data.fake.is_inference() or data.fake.is_conj() or data.fake.is_neg())
    if tx.graph.scope.is_nested or not is_plain:
        unsupported(ParameterCreated(data.describe(), "it isn't plain, or an operator runs the function"))
    fake = compute("call_method", "detach", [data.fake], {})
    node = tx.graph.call("call_method", "detach", (data.node,), {}, fake)
    if requires_grad:
        fake.requires_grad_()
        node = tx.graph.call("call_method", "requires_grad_", (node,), {}, fake)
    created = TensorVariable(node, fake, Parameter)
    tx.attempt.state(KnownTensors).add(fake, created)
    tx.attempt.provenance.created_leaf(created)
    return created
