"""Tensors that a program makes of numpy's arrays.

In eager each has a storage of its own, which begins where the array does and ends with it. In the graph it is one with
the memory that the array is in, or is a part of. So one that leaves the graph is made anew of its array, and a view of
it of that. What asks for the storage inside is told of the part, or breaks the graph.
"""

from __future__ import annotations

from typing import Any

import torch

from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator

from .equivalent_operators import rewrites


def owner_of(attempt: Attempt, tensor: Any) -> Any:
    """The tensor made of an array that this one is, or is a view of; None: there is none."""
    memory = tensor.fake.untyped_storage()._cdata if attempt.values.array_tensors else None
    owners = {each.node: each for each in attempt.values.array_tensors if _is_in(each.fake, memory)}
    waiting, seen = [tensor.node] if owners else [], set()
    while waiting:
        node = waiting.pop()
        if node in owners:
            return owners[node]
        if node not in seen and _is_in(node.meta.get("example_value"), memory):
            seen.add(node)
            waiting += node.all_input_nodes
    return None


def _is_in(value: Any, memory: Any) -> bool:
    """Whether a tensor, or one of several, is in this memory."""
    if isinstance(value, (tuple, list)):
        return any(_is_in(each, memory) for each in value)
    return isinstance(value, torch.Tensor) and value.untyped_storage()._cdata == memory


def load_view(cg: Codegen, owner: Any, tensor: Any) -> None:
    """Leave a view on the stack, as one of what its owner is outside of the graph."""
    fake, whole = tensor.fake, owner.fake
    offset = fake.storage_offset() - whole.storage_offset()
    of_numbers = type(offset) is int and fake.dtype is whole.dtype and not (fake.is_conj() or fake.is_neg())
    if fake.requires_grad or not of_numbers or not (fake._base is None or fake._base is whole):
        cg.attempt.provenance.created_with(tensor, owner)
        raise NotConstant(tensor.describe())
    make = _detached_view if fake._base is None else _view
    cg.call(make, [lambda: cg.load(owner), lambda: cg.graph_output(tensor), lambda: cg.load_const(offset)])


def _view(owner: torch.Tensor, like: torch.Tensor, offset: int) -> torch.Tensor:
    return owner.as_strided(like.size(), like.stride(), offset)


def _detached_view(owner: torch.Tensor, like: torch.Tensor, offset: int) -> torch.Tensor:
    return _view(owner, like, offset).detach()


@rewrites(
    "as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "resize_", "resize_as_", "set_", "is_set_to"
)
def _of_storage(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """What asks for a tensor's storage is left to eager."""
    for each in (*args, *kwargs.values()):
        refuse_part(tx, each.realize(), name)
    return None


def refuse_part(tx: Translator, value: VariableTracker, name: str) -> None:
    """Break where a tensor's storage is another in eager."""
    if hasattr(value, "fake") and owner_of(tx.attempt, value) is not None:
        unsupported(UnsupportedAttribute(value.describe(), name, "it was made of a numpy array, which may be a part"))
