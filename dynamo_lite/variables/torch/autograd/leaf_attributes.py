"""Autograd's attributes and methods of tensors: ``grad``, ``requires_grad``, ``is_leaf``, ``data``, ``detach_``."""

from __future__ import annotations

import operator

import torch

from dynamo_lite.insight.break_reasons import (
    DataReplaced,
    GradFnRead,
    RequiresGradChange,
    TensorObjectMethod,
    UnsupportedAttribute,
    UnsupportedOperation,
)
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.runtime.shared_memory import memory_of
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.torch.tensors.fake_computation import compute
from dynamo_lite.variables.torch.tensors.known_tensors import KnownTensors
from dynamo_lite.variables.torch.tensors.later_states import certain
from dynamo_lite.variables.torch.tensors.tensor import ATTRIBUTES, METHODS, SETTERS, TensorVariable

from .created_leaves import created_aliases

_REQUIRES_GRAD = operator.attrgetter("requires_grad")


def _grad(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    written = tensor.attrs.get("grad")
    if written is not None:
        return written
    certain(tx, f"grad of {tensor.describe()}", _REQUIRES_GRAD, tensor)
    if tensor.source is not None and tensor.value is not None and tensor.value.is_leaf and _read_is_leaf(tensor.fake):
        return tx.attempt.values.wrap(tensor.value.grad, tensor.source.child("c_attr", "grad"))
    if tensor.source is None and (not tensor.fake.requires_grad or _read_is_leaf(tensor.fake)):
        return ConstantVariable(None)
    unsupported(UnsupportedAttribute(tensor.describe(), "grad", "it is no leaf, so torch warns"))


def _set_grad(tx: Translator, tensor: TensorVariable, value: VariableTracker) -> None:
    """``tensor.grad = value``, replayed after the graph. A value that torch refuses breaks the graph."""
    is_created = tensor.source is None and not tensor.fake.requires_grad and not tx.graph.scope.is_nested
    if not is_created and (tensor.value is None or not tensor.value.is_leaf):
        unsupported(UnsupportedAttribute(tensor.describe(), "grad", "it is no leaf, or one created while tracing"))
    _is_leaf(tx, tensor)  # guarded
    if isinstance(value, TensorVariable):
        one, other = ((each.fake.shape, each.fake.dtype, each.fake.device) for each in (value, tensor))
        fits = one == other and value is not tensor
    else:
        fits = tx.is_none(value)
    if not fits:
        unsupported(UnsupportedAttribute(tensor.describe(), "grad", f"{value.describe()} does not fit"))
    tensor.write(tx, "grad", value)


def _set_data(tx: Translator, tensor: TensorVariable, value: VariableTracker) -> None:
    """``tensor.data = value``, of data that it has already: anything else breaks the graph."""
    if value is tensor or isinstance(value, TensorVariable) and _is_data_of(tx.graph, tensor, value):
        return  # it has these data already
    unsupported(DataReplaced(tensor.describe()))


def _is_data_of(graph: GraphBuilder, tensor: TensorVariable, value: TensorVariable) -> bool:
    """Whether a tensor has these data already: ``x.data += y`` assigns ``x.data`` after changing it in place."""
    fakes = (tensor.fake, value.fake)
    if graph.scope.is_nested or any(each.layout is not torch.strided or each.is_inference() for each in fakes):
        return False
    if tensor.has_torch_function or value.has_torch_function:
        return False
    one, other = (
        (memory_of(each), each.dtype, each.is_conj(), each.is_neg(), each.storage_offset(), each.stride())
        for each in fakes
    )
    return one == other and tensor.fake.shape == value.fake.shape


def _set_requires_grad(
    tx: Translator, tensor: TensorVariable, requires_grad: VariableTracker | None = None
) -> VariableTracker:
    """``tensor.requires_grad = …`` and ``requires_grad_()``, for tensors created during tracing and for leaves."""
    if requires_grad is not None and requires_grad.python_type() is not bool:
        unsupported(UnsupportedOperation("requires_grad", requires_grad.describe()))
    wanted = requires_grad is None or tx.truth(requires_grad)
    if wanted and tensor.source is None and _can_require_grad(tensor.fake):
        if _has_views(tx, tensor):  # they come to require gradients, too
            unsupported(RequiresGradChange(tensor.describe()))
        tensor.fake.requires_grad_()
        tensor.node = tx.graph.call("call_method", "requires_grad_", (tensor.node,), {}, tensor.fake)
        tx.attempt.provenance.created_leaf(tensor)
        return tensor
    if wanted is certain(tx, f"requires_grad of {tensor.describe()}", _REQUIRES_GRAD, tensor):
        return tensor
    if wanted and tensor.before_freezing is not None:
        (tensor.node, tensor.fake, _), tensor.before_freezing = tensor.before_freezing, None
    elif not _is_existing_leaf(tx, tensor):
        unsupported(RequiresGradChange(tensor.describe()))
    elif wanted and not _unfreeze(tx, tensor):
        unsupported(RequiresGradChange(tensor.describe()))
    elif not wanted:
        tensor.before_freezing = tensor.node, tensor.fake, tx.attempt.provenance.step
        tensor.fake = tensor.fake.detach()
        tensor.node = tx.graph.call("call_method", "detach", (tensor.node,), {}, tensor.fake)
        tx.attempt.state(KnownTensors).add(tensor.fake, tensor)
    tensor.write(tx, "requires_grad", ConstantVariable(wanted))
    return tensor


def _unfreeze(tx: Translator, tensor: TensorVariable) -> bool:
    """Make a pre-existing leaf require gradients. Returns False if it has views or isn't a plain input."""
    inputs = tx.graph.inputs_in_storage(tensor.fake)
    if len(inputs) != 1 or tx.graph.scope.is_nested or tensor.fake.is_inference():
        return False
    (leaf,) = inputs
    if leaf.node is not tensor.node or leaf.convert is not None or leaf.is_thawed:
        return False
    if _has_views(tx, tensor):
        return False
    if not (tensor.fake.is_floating_point() or tensor.fake.is_complex()):
        return False
    tx.graph.enable_grad_on_input(leaf)
    return True


def _has_views(tx: Translator, tensor: TensorVariable) -> bool:
    return any(each.fake._is_view() for each in created_aliases(tx, tensor.fake) if each is not tensor)


def _is_existing_leaf(tx: Translator, tensor: TensorVariable) -> bool:
    return tensor.source is not None and not tensor.has_torch_function and bool(_is_leaf(tx, tensor).as_constant())


def _can_require_grad(fake: torch.Tensor) -> bool:
    return _read_is_leaf(fake) and not fake.requires_grad and not fake.is_inference() and fake.is_floating_point()


def _read_is_leaf(fake: torch.Tensor) -> bool:
    """``is_leaf``, which raises for a view that was created under no_grad and mutated since."""
    return bool(compute("call_function", getattr, [fake, "is_leaf"], {}))


def _is_detached(tx: Translator, tensor: TensorVariable, source: Source) -> bool:
    """Whether a pre-existing tensor requires no gradients and is no view (`detach_` raises for views)."""
    if tensor.fake.requires_grad or tensor.value is None or tensor.attrs:
        return False
    base = tx.attempt.values.wrap(tensor.value._base, source.child("c_attr", "_base"))
    return tx.is_none(base.realize())


def _detach_(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    if tx.graph.scope.is_nested or tensor.has_torch_function:
        unsupported(TensorObjectMethod("detach_"))
    if tensor.source is not None:
        if not _is_detached(tx, tensor, tensor.source):
            unsupported(TensorObjectMethod("detach_"))
        return tensor
    compute("call_method", "detach_", [tensor.fake], {})
    tensor.node = tx.graph.call("call_method", "detach_", (tensor.node,), {}, tensor.fake)
    return tensor


def _is_leaf(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    if tx.graph.scope.is_nested:
        certain(tx, f"is_leaf of {tensor.describe()}", _read_is_leaf, tensor)
    if tensor.source is None or not tensor.fake.requires_grad or not tensor.value.requires_grad:
        return ConstantVariable(_read_is_leaf(tensor.fake))
    return tx.attempt.values.wrap(tensor.value.is_leaf, tensor.source.child("c_attr", "is_leaf"))


def _grad_fn(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    if tensor.getattr(tx, "is_leaf").as_constant():
        return ConstantVariable(None)
    unsupported(GradFnRead(tensor.describe()))


ATTRIBUTES |= {"grad": _grad, "is_leaf": _is_leaf, "grad_fn": _grad_fn}
SETTERS |= {"grad": _set_grad, "requires_grad": _set_requires_grad, "data": _set_data}
METHODS |= {"requires_grad_": _set_requires_grad, "detach_": _detach_}
