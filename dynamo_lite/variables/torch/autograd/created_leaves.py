"""Leaves created during tracing (parameters, tensors that require gradients), and tensors whose ``.data`` is replaced.

A graph can't return a leaf: its results have a ``grad_fn``. So a leaf is created empty before the graph and passed to
it as an input. The graph fills it where the program creates it. Aliases of the data become views of that input.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.nn import Parameter

from dynamo_lite.insight.break_reasons import DataReplaced, ParameterCreated, UnknownCall
from dynamo_lite.records.graph import DENSE, GraphInput
from dynamo_lite.runtime.graph_functions import empty_leaf, fill, leaf_of, with_new_data
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.torch.tensors.fake_computation import compute
from dynamo_lite.variables.torch.tensors.services import become_created_leaf
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable


def _create_leaf(tx: Translator, data: TensorVariable, is_parameter: bool, requires_grad: bool) -> GraphInput | None:
    """Create a graph input that is a leaf with this data. Returns None if that isn't possible.

    ``is_parameter``: it is a new ``nn.Parameter``. Otherwise the tensor itself becomes the leaf (``requires_grad_``).
    """
    owner = _owner(tx, data)
    if owner is not None:
        tx.attempt.provenance.shared(data)
        return tx.graph.share(owner, functools.partial(leaf_of, is_parameter, requires_grad), data)
    aliases = [each for each in created_aliases(tx, data.fake) if is_parameter or each is not data]
    if not _can_move(tx, data, aliases):
        return None
    leaf = tx.graph.create_input(functools.partial(empty_leaf, is_parameter, *_layout(data.fake), requires_grad))
    _fill(tx, leaf, data, aliases)
    return leaf


def try_replace_data(tx: Translator, tensor: TensorVariable, data: TensorVariable, cls: type) -> bool:
    """Trace ``tensor.data = data`` for a leaf, whose class becomes ``cls``. Returns False if that isn't possible: the
    data must have been created during tracing."""
    aliases = created_aliases(tx, data.fake)
    before = next((each for each in tx.graph.tensors if each.node is tensor.node), None)
    if not spans_storage(tx, data.fake):
        unsupported(DataReplaced(tensor.describe(), "its new data are a part of another tensor"))
    if not _can_move(tx, data, aliases) or not _fits(tensor.fake, data.fake) or cls not in (torch.Tensor, Parameter):
        return False
    if before is None or before.convert is not None or (before.make and not before.is_fresh):
        return False
    if not tx.graph.retire_input(before):
        return False
    layout = _layout(data.fake)
    empty = functools.partial(empty_leaf, cls is Parameter, *layout, tensor.fake.requires_grad)
    if tensor.source is None:
        leaf = tx.graph.create_input(empty)
        tx.attempt.before_graph.created[tensor] = leaf.node
    else:
        make = functools.partial(with_new_data, cls, *layout)
        with unset_fake_temporarily():
            value = empty()
        leaf = tx.graph.create_input(make, value, tensor.source)
        tx.graph.replaced.setdefault(tensor.source, (before.node, tensor.cls))
    tensor.cls = cls
    _bind(tx, leaf, tensor)
    _fill(tx, leaf, data, aliases)
    return True


def _fits(fake: torch.Tensor, data: torch.Tensor) -> bool:
    """Whether torch accepts this data for the tensor."""
    can_require_grad = data.is_floating_point() or data.is_complex()
    devices = {each.device.type for each in (fake, data)}
    return (can_require_grad or not fake.requires_grad) and (len(devices) == 1 or devices == {"cpu", "cuda"})


def _owner(tx: Translator, data: TensorVariable) -> GraphInput | None:
    """The pre-existing input whose whole data this tensor is, if the graph doesn't mutate it."""
    owners = tx.graph.inputs_in_storage(data.fake)
    if tx.graph.bodies or data.has_torch_function or len(owners) != 1 or data.fake.is_inference():
        return None
    (owner,) = owners
    fakes = owner.fake, data.fake
    is_plain = owner.convert is owner.formula is owner.make is None and owner.source not in tx.graph.written
    if not is_plain or fakes[0].dtype is not fakes[1].dtype or any(each.is_conj() or each.is_neg() for each in fakes):
        return None
    _layout(data.fake)  # specializes its sizes
    one, other = ((each.size(), each.stride(), each.storage_offset()) for each in fakes)
    return owner if one == other else None


Layout = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, torch.device]


def _layout(fake: torch.Tensor) -> Layout:
    """Sizes, strides, dtype and device; symbolic sizes are specialized."""
    return tuple(map(int, fake.shape)), tuple(map(int, fake.stride())), fake.dtype, fake.device


def _bind(tx: Translator, leaf: GraphInput, tensor: TensorVariable) -> None:
    """Make this input the tensor's node from here on."""
    tensor.node, tensor.fake = leaf.node, leaf.fake
    tx.attempt.values.fakes[id(leaf.fake)] = tensor


def _fill(tx: Translator, leaf: GraphInput, data: TensorVariable, aliases: Sequence[TensorVariable]) -> None:
    """Copy the data into an empty leaf in the graph. Aliases of the data become views of the leaf."""
    detached = compute("call_method", "detach", [leaf.fake], {})
    filled = tx.graph.call("call_function", fill, (leaf.node, data.node), {}, detached)
    for each in aliases:
        if each.fake.requires_grad:  # it has a grad_fn, so it keeps its own memory in the graph
            tx.graph.note_copy(each.fake, leaf.fake)
            tx.attempt.provenance.shared(each)
        else:
            each.node, each.fake = tx.graph.view_of_replaced_memory(filled, each.fake)
            tx.attempt.values.fakes[id(each.fake)] = each


def _can_move(tx: Translator, data: TensorVariable, aliases: Sequence[TensorVariable]) -> bool:
    """Whether data created during tracing can move to the memory of a leaf that is created before the graph."""
    fake = data.fake
    if tx.graph.bodies or data.has_torch_function or fake.is_inference() or not spans_storage(tx, fake):
        return False
    if any(each.has_torch_function for each in aliases) or tx.graph.is_write_protected(fake):
        return False
    return not tx.graph.all_in_storage(fake)


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


@become_created_leaf.implementation
def _become_created_leaf(tx: Translator, tensor: TensorVariable) -> bool:
    """Make a tensor that was created during tracing a leaf, in place. Returns False if that isn't possible."""
    if not tx.attempt.restart_facts.leaves_before:
        return False
    leaf = _create_leaf(tx, tensor, False, True)
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
    if kind is not Parameter or not isinstance(data, TensorVariable):
        unsupported(UnknownCall("Tensor._make_subclass()", "only plain parameters can be created while tracing"))
    if requires_grad and not (data.fake.is_floating_point() or data.fake.is_complex()):
        unsupported(ParameterCreated(data.describe(), "a tensor of integers can't require gradients"))
    leaf = _create_leaf(tx, data, True, requires_grad)
    if leaf is None:
        unsupported(ParameterCreated(data.describe(), "it would share memory with other tensors"))
    created = TensorVariable(leaf.node, leaf.fake, Parameter)
    _bind(tx, leaf, created)
    tx.attempt.before_graph.created[created] = leaf.node
    return created
