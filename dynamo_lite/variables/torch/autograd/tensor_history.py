"""What autograd knows of a tensor: its gradient and history, whether it is a leaf, and the data that it stands for."""

from __future__ import annotations

import torch

from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedOperation
from dynamo_lite.runtime.graph_functions import count_write
from dynamo_lite.variables.core.base import VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.core.registry import become_created_leaf, try_replace_data
from dynamo_lite.variables.torch.tensors.fake_calls import compute
from dynamo_lite.variables.torch.tensors.tensor import ATTRIBUTES, METHODS, SETTERS, TensorVariable, record

from .created_leaves import all_sharing


def _grad(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    if "grad" in tensor.attrs:
        return tensor.attrs["grad"]  # type: ignore[return-value]
    if tensor.source is not None and tensor.value is not None and tensor.value.is_leaf and _asked_leaf(tensor.fake):
        return tx.attempt.values.wrap(tensor.value.grad, tensor.source.child("c_attr", "grad"))
    if tensor.source is None and (not tensor.fake.requires_grad or _asked_leaf(tensor.fake)):
        return ConstantVariable(None)
    unsupported(UnsupportedAttribute(tensor.describe(), "grad"))


def _set_grad(tx: Translator, tensor: TensorVariable, value: VariableTracker) -> None:
    """``tensor.grad = value``: replayed after the graph. What doesn't fit is refused by CPython."""
    made_without = tensor.source is None and not tensor.fake.requires_grad and not tx.graph.bodies
    if not made_without and (tensor.value is None or not tensor.value.is_leaf):
        unsupported(UnsupportedAttribute(tensor.describe(), "grad", "writing it is modelled for leaves alone"))
    _is_leaf(tx, tensor)
    if isinstance(value, TensorVariable):
        fits = value.fake.shape == tensor.fake.shape and value.fake.dtype is tensor.fake.dtype
        if not fits or value.fake.device != tensor.fake.device or value is tensor:
            unsupported(UnsupportedAttribute(tensor.describe(), "grad", f"{value.describe()} does not fit"))
    elif not tx.is_none(value):
        unsupported(UnsupportedAttribute(tensor.describe(), "grad", f"{value.describe()} does not fit"))
    tensor.write(tx, "grad", value)


def _set_data(tx: Translator, tensor: TensorVariable, value: VariableTracker) -> None:
    """``tensor.data = value``."""
    if value is tensor or isinstance(value, TensorVariable) and _is_data_of(tx, tensor, value):
        return  # its data is what it was
    may_be = tensor in tx.attempt.before_graph.created or _is_found_leaf(tx, tensor)
    if not may_be or not isinstance(value, TensorVariable) or not try_replace_data(tx, tensor, value, tensor.cls):
        unsupported(UnsupportedAttribute(tensor.describe(), "data", "its new data have other owners"))


def _set_(tx: Translator, tensor: TensorVariable, *args: VariableTracker) -> VariableTracker:
    """``tensor.set_(other)``: the data of the other, and a write."""
    other = args[0] if len(args) == 1 else None
    if (
        not isinstance(other, TensorVariable)
        or tx.graph.bodies
        or tensor.has_torch_function
        or other.has_torch_function
    ):
        unsupported(UnsupportedAttribute(tensor.describe(), "set_", "it changes the tensor object"))
    fakes = tensor.fake, other.fake
    if (
        torch.is_grad_enabled()
        and any(each.requires_grad for each in fakes)
        or any(each.is_inference() for each in fakes)
    ):
        unsupported(UnsupportedAttribute(tensor.describe(), "set_", "autograd follows it"))
    if fakes[0].dtype is not fakes[1].dtype or fakes[0].device != fakes[1].device or fakes[0]._is_view():
        unsupported(UnsupportedAttribute(tensor.describe(), "set_", f"{other.describe()} does not fit"))
    _set_data(tx, tensor, other)
    return record(tx, "call_function", count_write, [tensor], {})


def _is_data_of(tx: Translator, tensor: TensorVariable, value: TensorVariable) -> bool:
    """Whether a tensor has these data already, as where ``x.data += y`` puts back what it changed in its place."""
    fakes = (tensor.fake, value.fake)
    if tx.graph.bodies or any(each.layout is not torch.strided or each.is_inference() for each in fakes):
        return False
    if tensor.has_torch_function or value.has_torch_function or any(map(tx.graph.is_write_protected, fakes)):
        return False
    one, other = (
        (each.untyped_storage()._cdata, each.dtype, each.is_conj(), each.is_neg(), each.storage_offset(), each.stride())
        for each in fakes
    )
    return one == other and tensor.fake.shape == value.fake.shape


def _set_requires_grad(tx: Translator, tensor: TensorVariable, value: VariableTracker) -> VariableTracker:
    """Where it is what it was already, or the tensor was made inside; else the tensor object changes."""
    if value.python_type() is not bool:
        unsupported(UnsupportedOperation("requires_grad", value.describe()))
    wanted = tx.truth(value)
    made = tensor.source is None and tensor not in tx.attempt.before_graph.created
    if wanted and made and _becomes_leaf(tensor.fake):
        if not become_created_leaf(tx, tensor):
            tensor.fake.requires_grad_()
            tensor.node = tx.graph.call("call_method", "requires_grad_", (tensor.node,), {}, tensor.fake)
            tx.attempt.provenance.created_leaf(tensor)
        return tensor
    if wanted is tensor.fake.requires_grad:
        return tensor
    if wanted and tensor.before_freezing is not None:
        (tensor.node, tensor.fake), tensor.before_freezing = tensor.before_freezing, None
    elif (
        not (tensor in tx.attempt.before_graph.created or _is_found_leaf(tx, tensor))
        or wanted
        and not _thaw(tx, tensor)
    ):
        unsupported(UnsupportedAttribute(tensor.describe(), "requires_grad", "it changes the tensor object"))
    elif not wanted:
        tensor.before_freezing = tensor.node, tensor.fake
        tensor.fake = tensor.fake.detach()
        tensor.node = tx.graph.call("call_method", "detach", (tensor.node,), {}, tensor.fake)
        tx.attempt.values.fakes[id(tensor.fake)] = tensor
    tensor.write(tx, "requires_grad", ConstantVariable(wanted))
    return tensor


def _thaw(tx: Translator, tensor: TensorVariable) -> bool:
    """Let a found leaf require gradients. False where it can't, isn't in the graph as it was found, or has views."""
    sharing = tx.graph.all_in_storage(tensor.fake)
    given = sharing[0] if len(sharing) == 1 else None
    as_found = given is not None and given.node is tensor.node and given.convert is None and given.make is None
    if not as_found or tx.graph.bodies or tensor.fake.is_inference():
        return False
    if any(each.fake._is_view() for each in all_sharing(tx, tensor.fake) if each is not tensor):
        return False
    if not (tensor.fake.is_floating_point() or tensor.fake.is_complex()):
        return False
    tx.graph.thaw_input(given)
    return True


def _is_found_leaf(tx: Translator, tensor: TensorVariable) -> bool:
    return tensor.source is not None and not tensor.has_torch_function and bool(_is_leaf(tx, tensor).as_constant())


def _becomes_leaf(fake: torch.Tensor) -> bool:
    return _asked_leaf(fake) and not fake.requires_grad and not fake.is_inference() and fake.is_floating_point()


def _asked_leaf(fake: torch.Tensor) -> bool:
    """Torch refuses to say it of views that were made without gradients and written to since."""
    return compute("call_function", getattr, [fake, "is_leaf"], {})  # type: ignore[no-any-return]


def _is_detached(tx: Translator, tensor: TensorVariable) -> bool:
    """Whether a found tensor has no history, and is no view: torch refuses those."""
    if tensor.fake.requires_grad or tensor.value is None or tensor.attrs:
        return False
    base = tx.attempt.values.wrap(tensor.value._base, tensor.source.child("c_attr", "_base"))  # type: ignore[union-attr]
    return bool(tx.is_none(base.realize()))


def _detach_(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    if tx.graph.bodies or tensor.has_torch_function:
        unsupported(UnsupportedAttribute(tensor.describe(), "detach_", "it changes the tensor object"))
    if tensor.source is not None and not _is_detached(tx, tensor):
        unsupported(UnsupportedAttribute(tensor.describe(), "detach_", "it changes a tensor that was given"))
    if tensor.source is not None:
        return tensor
    compute("call_method", "detach_", [tensor.fake], {})
    tensor.node = tx.graph.call("call_method", "detach_", (tensor.node,), {}, tensor.fake)
    return tensor


def _requires_grad_(
    tx: Translator, tensor: TensorVariable, requires_grad: VariableTracker | None = None
) -> VariableTracker:
    return _set_requires_grad(tx, tensor, requires_grad or ConstantVariable(True))


def _is_leaf(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    if tensor.source is None or not tensor.fake.requires_grad or not tensor.value.requires_grad:
        return ConstantVariable(_asked_leaf(tensor.fake))
    return tx.attempt.values.wrap(tensor.value.is_leaf, tensor.source.child("c_attr", "is_leaf"))


ATTRIBUTES |= {"grad": _grad, "is_leaf": _is_leaf}
SETTERS |= {"grad": _set_grad, "requires_grad": _set_requires_grad, "data": _set_data}
METHODS |= {"requires_grad_": _requires_grad_, "detach_": _detach_, "set_": _set_}
