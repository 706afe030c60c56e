"""Leaves created during tracing: parameters, and tensors that require gradients.

What a backend returns has a ``grad_fn``, so it is no leaf. So such a leaf is created, empty, before the graph; it is an
input of the graph, which fills it where the program creates it. Aliases of the data become views of that input.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.records.graph import DENSE, GraphInput
from dynamo_lite.runtime import graph_functions
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models, provides
from dynamo_lite.variables.torch.tensors.fake_computation import compute
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

_EMPTY: dict[type, Callable[..., torch.Tensor]] = {
    torch.Tensor: graph_functions.empty_leaf,
    torch.nn.Parameter: graph_functions.empty_parameter,
}
"""Creates an empty leaf of a class."""


def _create_leaf(
    tx: Translator, data: TensorVariable, cls: type, requires_grad: bool, in_place: bool = False
) -> GraphInput | None:
    """A graph input that is a leaf with this data; None where that isn't possible.

    ``in_place``: the tensor itself becomes the leaf (``requires_grad_``).
    """
    aliases = [each for each in created_aliases(tx, data.fake) if not (in_place and each is data)]
    if not _can_move(tx, data, aliases):
        return None
    leaf = tx.graph.create_input(functools.partial(_EMPTY[cls], *_layout(data.fake), requires_grad))
    _fill(tx, leaf, data, aliases)
    return leaf


Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]


def _layout(fake: torch.Tensor) -> Layout:
    """Sizes, strides, dtype and device; symbolic sizes are specialized."""
    return tuple(map(int, fake.shape)), tuple(map(int, fake.stride())), fake.dtype, fake.device


def _bind(tx: Translator, leaf: GraphInput, tensor: TensorVariable) -> None:
    """Let the tensor be this input from now on."""
    tensor.node, tensor.fake = leaf.node, leaf.fake
    tx.attempt.values.fakes[id(leaf.fake)] = tensor


def _fill(tx: Translator, leaf: GraphInput, data: TensorVariable, aliases: Sequence[TensorVariable]) -> None:
    """Copy the data into an empty leaf in the graph. Aliases of the data become aliases of the leaf."""
    detached = compute("call_method", "detach", [leaf.fake], {})
    filled = tx.graph.call("call_function", graph_functions.fill, (leaf.node, data.node), {}, detached)
    for each in aliases:
        each.node, each.fake = tx.graph.alias_of(filled)
        tx.attempt.values.fakes[id(each.fake)] = each


def _can_move(tx: Translator, data: TensorVariable, aliases: Sequence[TensorVariable]) -> bool:
    """Whether data created during tracing can move to the memory of a leaf that is created before the graph."""
    fake = data.fake
    if tx.graph.bodies or data.has_torch_function or fake.is_inference() or not spans_storage(tx, fake):
        return False
    if tx.graph.all_in_storage(fake):
        return False
    return not any(each.has_torch_function or each.fake.requires_grad or _differs(each.fake, fake) for each in aliases)


def _differs(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors in one storage are different views of it."""
    return one.storage_offset() != other.storage_offset() or _layout(one) != _layout(other)


def created_aliases(tx: Translator, fake: torch.Tensor) -> list[TensorVariable]:
    """The tensors created so far that share this one's storage."""
    known: dict[int, TensorVariable] = {id(each): each for each in tx.attempt.values.fakes.values()}
    return [each for each in known.values() if share_memory(each.fake, fake)]


def spans_storage(tx: Translator, fake: torch.Tensor) -> bool:
    """Whether a tensor is all of its storage, as a new one of its sizes and strides would be."""
    numbers = (*fake.shape, *fake.stride(), fake.storage_offset())
    if any(isinstance(each, torch.SymInt) and tx.graph.symbols.is_data_dependent(each) for each in numbers):
        return False
    if fake.is_conj() or fake.is_neg() or torch._debug_has_internal_overlap(fake) != DENSE or fake.storage_offset():
        return False
    last = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride()))
    needed = (last + 1) * fake.element_size() if fake.numel() else 0
    return bool(fake.untyped_storage().nbytes() == needed)


@provides("become_created_leaf")
def _become_made(tx: Translator, tensor: TensorVariable) -> bool:
    """Let a created tensor be a leaf that requires gradients. Returns False if that isn't possible or needed."""
    if not tx.attempt.restart_facts.leaves_before:
        return False
    leaf = _create_leaf(tx, tensor, torch.Tensor, True, in_place=True)
    if leaf is None:
        return False
    _bind(tx, leaf, tensor)
    tx.attempt.before_graph.created[tensor] = leaf.node
    return True


@models(torch.Tensor._make_subclass)
def _make_subclass(
    tx: Translator, cls: VariableTracker, data: VariableTracker, require_grad: VariableTracker | None = None
) -> VariableTracker:
    """``Tensor._make_subclass``, which ``nn.Parameter`` calls."""
    kind = tx.python_value(cls)
    requires_grad = require_grad is not None and tx.truth(require_grad)
    if kind is not torch.nn.Parameter or not isinstance(data, TensorVariable):
        unsupported(UnknownCall("Tensor._make_subclass()", "only plain parameters can be created while tracing"))
    if requires_grad and not (data.fake.is_floating_point() or data.fake.is_complex()):
        unsupported(UnknownCall("nn.Parameter()", "a tensor of integers can't require gradients"))
    leaf = _create_leaf(tx, data, kind, requires_grad)
    if leaf is None:
        unsupported(UnknownCall("nn.Parameter()", "it would share memory with other tensors"))
    created = TensorVariable(leaf.node, leaf.fake, kind)
    _bind(tx, leaf, created)
    tx.attempt.before_graph.created[created] = leaf.node
    return created
