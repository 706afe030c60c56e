"""Tensors that share memory with a numpy array (``torch.from_numpy``).

In eager, each has a storage that spans exactly the array. In the graph, it is a view of the storage of the array's
base. So such a tensor is recreated from its array when it leaves the graph, and its views are recreated from it.
Operators that query the storage get an answer relative to the array, or break the graph.
"""

from __future__ import annotations

import torch

from dynamo_lite.insight.break_reasons import NumpyStorage
from dynamo_lite.plan.rows import Value
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)

from .equivalent_operators import rewrites
from .known_tensors import GraphTensor


class ArrayTensors(list[GraphTensor]):
    """Tensors that share memory with numpy arrays."""


def array_owner(attempt: Attempt, tensor: GraphTensor) -> GraphTensor | None:
    """The tensor created from an array that this tensor is, or is a view of; None if there is none."""
    owners: dict[torch.fx.Node, GraphTensor] = {
        each.node: each for each in attempt.state(ArrayTensors) if share_memory(each.fake, tensor.fake)
    }
    pending, seen = [tensor.node] if owners else [], set()
    while pending:
        node = pending.pop()
        if node in owners:
            return owners[node]
        if node not in seen and _shares_memory(node.meta.get("example_value"), tensor.fake):
            seen.add(node)
            pending += node.all_input_nodes
    return None


def _shares_memory(value: object, fake: torch.Tensor) -> bool:
    """Whether a tensor, or one of a sequence of tensors, shares memory with this one."""
    if isinstance(value, (tuple, list)):
        return any(_shares_memory(each, fake) for each in value)
    return share_memory(value, fake)


def view_of(plan: Planner, owner: GraphTensor, tensor: GraphTensor) -> Value:
    """The tensor, as a view of its recreated owner."""
    fake, base = tensor.fake, owner.fake
    offset = fake.storage_offset() - base.storage_offset()
    same_elements = type(offset) is int and fake.dtype is base.dtype and not (fake.is_conj() or fake.is_neg())
    if fake.requires_grad or not same_elements or not (fake._base is None or fake._base is base):
        plan.attempt.provenance.created_with(tensor, owner)
        raise NotConstant(tensor.describe())
    make = _detached_view if fake._base is None else _view
    return plan.call(make, owner, plan.output(tensor), plan.constant(offset))


def _view(owner: torch.Tensor, like: torch.Tensor, offset: int) -> torch.Tensor:
    return owner.as_strided(like.size(), like.stride(), offset)


def _detached_view(owner: torch.Tensor, like: torch.Tensor, offset: int) -> torch.Tensor:
    return _view(owner, like, offset).detach()


@rewrites(
    "as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "resize_", "resize_as_", "set_", "is_set_to"
)
def _refuse_storage_operators(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """Operators that address a tensor's whole storage fall back to eager."""
    for each in (*args, *kwargs.values()):
        value = each.realize()
        if value.is_tensor and array_owner(tx.attempt, value) is not None:  # type: ignore[arg-type]
            unsupported(NumpyStorage(name))  # its storage in the graph isn't the one that it has in eager
    return None
