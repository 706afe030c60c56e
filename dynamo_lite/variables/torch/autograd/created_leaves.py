"""Tensors made inside that are objects of their own: parameters, and leaves that require gradients.

What a backend returns is a result of autograd's graph and no such object. So they are made, empty, before the graph;
they are inputs of it, and where the program makes them the graph fills them. What shared their memory is views of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedAttribute
from dynamo_lite.records.graph import DENSE, GraphInput
from dynamo_lite.runtime import graph_functions
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import models, provides
from dynamo_lite.variables.torch.tensors.fake_calls import compute
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable


def made_before(tx: Translator, data: TensorVariable, cls: type, requires_grad: bool, is_it: bool = False) -> Any:
    """The input of the graph that is an object of its own with a tensor's memory; None where that can't be one.
    ``is_it``: the tensor itself becomes it."""
    owner = _owner(tx, data)
    if owner is not None:
        tx.attempt.provenance.shared(data)
        return tx.graph.share(owner, functools.partial(_OF[cls], requires_grad), data)
    sharing = [each for each in all_sharing(tx, data.fake) if not (is_it and each is data)]
    if not _may_be_taken(tx, data, sharing):
        return None
    given = tx.graph.made_before(functools.partial(_EMPTY[cls], *_kind(data.fake), requires_grad))
    _fill(tx, given, data, sharing)
    return given


def try_replace_data(tx: Translator, tensor: TensorVariable, data: TensorVariable, cls: type) -> bool:
    """``tensor.data = data``, for a leaf, which is of that class from now on. False where that can't be traced."""
    sharing = all_sharing(tx, data.fake)
    before = next((each for each in tx.graph.tensors if each.node is tensor.node), None)
    owner = _owner_of_data(tx, data)
    if tx.attempt.steps in tx.attempt.restart_facts.data_stay:
        return False
    if not is_whole(tx, data.fake) if owner is None else _is_part(owner, data):
        unsupported(UnsupportedAttribute(tensor.describe(), "data", "its new data are a part of another tensor"))
    if (owner is None and not _may_be_taken(tx, data, sharing)) or not _fits(tensor.fake, data.fake):
        return False
    if before is None or before.convert is not None or (before.make and not before.is_fresh and before.of is None):
        return False
    if (
        cls not in _EMPTY
        or (owner is not None and tensor.source is None)
        or not tx.graph.retire_input(before, tx.attempt.steps)
    ):
        return False
    requires_grad = tensor.fake.requires_grad
    if owner is not None:
        _take_data(tx, tensor, before, owner, cls)
        return True
    if tensor.source is None:
        given = tx.graph.made_before(functools.partial(_EMPTY[cls], *_kind(data.fake), requires_grad))
        tx.attempt.before_graph.created[tensor] = given.node
    else:
        make = functools.partial(graph_functions.with_new_data, *_kind(data.fake), cls)
        with unset_fake_temporarily():
            value = _EMPTY[cls](*_kind(data.fake), requires_grad)
        given = tx.graph.made_before(make, value, tensor.source)
        tx.graph.replaced.setdefault(tensor.source, (before.node, tensor.cls))
    tensor.cls = cls
    _stand_for(tx, given, tensor)
    _fill(tx, given, data, sharing)
    return True


def _take_data(tx: Translator, tensor: TensorVariable, before: GraphInput, owner: GraphInput, cls: type) -> None:
    """A found tensor has the data of an input from here on, given to it before the graph: nothing may be written to
    them."""
    tx.graph.note_shared(owner, tensor)
    tx.attempt.provenance.shared(tensor)
    assert tensor.source is not None
    with unset_fake_temporarily():
        value = _OF[cls](tensor.fake.requires_grad, owner.value)
    make = functools.partial(graph_functions.with_data_of, cls)
    given = tx.graph.made_before(make, value, tensor.source)
    given.of = owner
    tx.graph.replaced.setdefault(tensor.source, (before.node, tensor.cls))
    tensor.cls = cls
    _stand_for(tx, given, tensor)


def _fits(fake: torch.Tensor, data: torch.Tensor) -> bool:
    """Whether a tensor may get these data: else torch says what is wrong with them."""
    has_gradients = data.is_floating_point() or data.is_complex()
    devices = {each.device.type for each in (fake, data)}
    return (has_gradients or not fake.requires_grad) and (len(devices) == 1 or devices == {"cpu", "cuda"})


_EMPTY: dict[type, Callable[..., torch.Tensor]] = {
    torch.Tensor: graph_functions.empty_leaf,
    torch.nn.Parameter: graph_functions.empty_parameter,
}


_OF: dict[type, Callable[..., torch.Tensor]] = {
    torch.Tensor: graph_functions.leaf_of,
    torch.nn.Parameter: graph_functions.parameter_of,
}


def _owner(tx: Translator, data: TensorVariable) -> GraphInput | None:
    """The input from outside of which a tensor is all, if nothing was written to it."""
    owner = _owner_of(tx, data, tx.graph.inputs_in_storage(data.fake))
    if owner is None or owner.make is not None or _is_part(owner, data):
        return None
    return owner


def _owner_of_data(tx: Translator, data: TensorVariable) -> GraphInput | None:
    """The same of which it is a part, which may be the data that a tensor had before; others may have them too."""
    owner = _owner_of(tx, data, [each for each in tx.graph.inputs_in_storage(data.fake) if each.of is None])
    if owner is None or not (owner.make is None or owner.is_of_before):
        return None
    return owner if torch._debug_has_internal_overlap(data.fake) == DENSE else None


def _owner_of(tx: Translator, data: TensorVariable, owners: list[GraphInput]) -> GraphInput | None:
    if tx.graph.bodies or data.has_torch_function or len(owners) != 1 or data.fake.is_inference():
        return None
    (owner,) = owners
    fakes = owner.fake, data.fake
    plain = owner.convert is owner.formula is None and owner.source not in tx.graph.written
    if not plain or fakes[0].dtype is not fakes[1].dtype or any(each.is_conj() or each.is_neg() for each in fakes):
        return None
    _kind(data.fake)  # of which no size is a symbol any more
    return owner


def _is_part(owner: GraphInput, data: TensorVariable) -> bool:
    """Whether a view of an input has other sizes, strides or another offset."""
    one, other = ((each.size(), each.stride(), each.storage_offset()) for each in (owner.fake, data.fake))
    return bool(one != other)


def _kind(fake: torch.Tensor) -> tuple[Any, ...]:
    size, stride = (tuple(map(int, each)) for each in (fake.shape, fake.stride()))
    return size, stride, fake.dtype, fake.device


def _stand_for(tx: Translator, given: Any, tensor: TensorVariable) -> None:
    """This input is the tensor from now on."""
    tensor.node, tensor.fake = given.node, given.fake
    tx.attempt.values.fakes[id(given.fake)] = tensor


def _fill(tx: Translator, given: Any, data: TensorVariable, sharing: list[TensorVariable]) -> None:
    """Give an input the data of a tensor. What shared its memory is a view of it from now on."""
    inside = compute("call_method", "detach", [given.fake], {})
    filled = tx.graph.call("call_function", graph_functions.fill, (given.node, data.node), {}, inside)
    for each in sharing:
        if each.fake.requires_grad:  # it is a result of autograd's graph, and stays apart
            tx.graph.part(each.fake, given.fake)
            tx.attempt.provenance.shared(each)
        else:
            each.node, each.fake = tx.graph.view_of_replaced_memory(filled, each.fake)
            tx.attempt.values.fakes[id(each.fake)] = each


def _may_be_taken(tx: Translator, data: TensorVariable, sharing: list[TensorVariable]) -> bool:
    """Whether a tensor made before the graph may stand for the memory of one that is made inside, and for all of it."""
    fake = data.fake
    if tx.graph.bodies or data.has_torch_function or fake.is_inference() or not is_whole(tx, fake):
        return False
    if any(each.has_torch_function for each in sharing) or tx.graph.is_write_protected(fake):
        return False
    return not tx.graph.all_in_storage(fake)


def all_sharing(tx: Translator, fake: torch.Tensor) -> list[TensorVariable]:
    """The tensors that were made inside so far and share memory with this one."""
    storage = fake.untyped_storage()._cdata
    known = {id(each): each for each in tx.attempt.values.fakes.values()}
    return [each for each in known.values() if each.fake.untyped_storage()._cdata == storage]


def is_data_dependent(tx: Translator, fake: torch.Tensor) -> bool:
    """Whether its sizes, its strides or where it begins do."""
    numbers = (*fake.shape, *fake.stride(), fake.storage_offset())
    return any(isinstance(each, torch.SymInt) and tx.graph.symbols.is_data_dependent(each) for each in numbers)


def is_whole(tx: Translator, fake: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory, as a new one of its sizes and strides would be."""
    if is_data_dependent(tx, fake):
        return False
    if fake.is_conj() or fake.is_neg() or torch._debug_has_internal_overlap(fake) != DENSE or fake.storage_offset():
        return False
    last = sum((size - 1) * stride for size, stride in zip(fake.shape, fake.stride()))
    needed = (last + 1) * fake.element_size() if fake.numel() else 0
    return bool(fake.untyped_storage().nbytes() == needed)


provides("try_replace_data")(try_replace_data)


@provides("become_created_leaf")
def _become_made(tx: Translator, tensor: TensorVariable) -> bool:
    if not tx.attempt.restart_facts.leaves_before:
        return False
    given = made_before(tx, tensor, torch.Tensor, True, True)
    if given is None:
        return False
    _stand_for(tx, given, tensor)
    tx.attempt.before_graph.created[tensor] = given.node
    return True


@models(torch.Tensor._make_subclass)
def _make_subclass(
    tx: Translator, cls: VariableTracker, data: VariableTracker, require_grad: VariableTracker | None = None
) -> VariableTracker:
    """What ``nn.Parameter`` ends in."""
    kind = tx.python_value(cls)
    wanted = require_grad is not None and tx.truth(require_grad)
    if kind is not torch.nn.Parameter or not isinstance(data, TensorVariable):
        unsupported(UnknownCall("Tensor._make_subclass()", "it is no plain parameter that is made"))
    if wanted and not (data.fake.is_floating_point() or data.fake.is_complex()):
        unsupported(UnknownCall("Tensor._make_subclass()", "only floating point numbers have gradients"))
    given = made_before(tx, data, kind, wanted)
    if given is None:
        unsupported(UnknownCall("Tensor._make_subclass()", "the parameter shares memory with other tensors"))
    made = TensorVariable(given.node, given.fake, kind)
    _stand_for(tx, given, made)
    tx.attempt.before_graph.created[made] = given.node
    return made
