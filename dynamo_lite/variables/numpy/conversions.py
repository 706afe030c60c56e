"""Arrays as inputs of the graph, and conversions between arrays and tensors."""

from __future__ import annotations

import functools
from typing import Any

import numpy
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite.insight.break_reasons import NumpyCall, TensorToNumpy
from dynamo_lite.plan.rows import Value
from dynamo_lite.runtime.graph_functions import from_numpy_written
from dynamo_lite.sources.source import Source
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
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import Model, find_model, models, models_raw
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.python.containers.structures import map_structure, structure_leaves
from dynamo_lite.variables.torch.tensors.array_memory import ArrayTensors
from dynamo_lite.variables.torch.tensors.known_tensors import KnownTensors
from dynamo_lite.variables.torch.tensors.later_states import certain
from dynamo_lite.variables.torch.tensors.tensor import METHODS, TensorVariable, record

from .arrays import NdarrayVariable
from .node_targets import numpy_dtype
from .scalars import NumpyScalarVariable


@wraps_type(numpy.ndarray)
def _wrap_array(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    """An input of the graph: the tensor that shares the array's memory."""
    shared = None if source.kind == "const" else _tensor_on(value)
    if shared is None:
        return attempt.values.opaque(value, source, "a numpy array that torch.from_numpy() doesn't take")
    source.check("type", numpy.ndarray)
    source.child("c_attr", "dtype").check("id", value.dtype)
    source.child("c_attr", "flags").child("c_attr", "writeable").check("equals", True)
    free = attempt.shapes.free(source, shared)
    if free.sizes:
        source.child("c_attr", "ndim").check("equals", value.ndim)
        given = attempt.graph.array(source, shared, free)
    else:
        for name in ("shape", "strides"):
            source.child("c_attr", name).check("equals", getattr(value, name))
        given = attempt.graph.input(source, shared, torch.from_numpy)
    attempt.guards.array(source)
    tensor = TensorVariable(given.node, given.fake, torch.Tensor)
    attempt.state(KnownTensors).add(given.fake, tensor)
    return NdarrayVariable(tensor, False, source)


def _tensor_on(array: Any) -> torch.Tensor | None:
    """A tensor on an array's memory, None if torch doesn't make one."""
    if not array.flags.writeable or not array.flags.aligned:
        return None
    try:
        with unset_fake_temporarily():
            return torch.from_numpy(array)
    except (TypeError, ValueError):
        return None


# -- conversions -------------------------------------------------------------------------------------------------------


class TensorOfArray(TensorVariable):
    """A tensor on an array's memory, with a storage object and a version counter of its own."""

    __slots__ = ("array",)
    array: NdarrayVariable

    def construct(self, plan: Planner) -> Value:
        if plan.attempt.provenance.is_created_leaf(self):
            return super().construct(plan)
        if self.fake.requires_grad or _layout(self.fake) != _layout(self.array.fake):
            raise NotConstant(self.describe())
        writes = self.fake._version
        if writes:
            return plan.call(from_numpy_written, self.array, plan.constant(writes))
        return plan.call(torch.from_numpy, self.array)


def _layout(fake: torch.Tensor) -> tuple[Any, ...]:
    return tuple(fake.shape), tuple(fake.stride())


def tensor_of(tx: Translator, array: NdarrayVariable) -> VariableTracker:
    if not array.fake.numel():  # torch.from_numpy drops the strides of an empty array
        return record(tx, "detach", [array.memory], {})
    data = record(tx, getattr, [array.memory, ConstantVariable("data")], {})
    assert isinstance(data, TensorVariable)
    tensor = TensorOfArray(data.node, data.fake, torch.Tensor)
    tensor.array = array
    tx.attempt.state(KnownTensors).add(data.fake, tensor)
    tx.attempt.state(ArrayTensors).append(tensor)
    tx.attempt.provenance.created(tensor)
    return tensor


@models(torch.from_numpy)
def _from_numpy(tx: Translator, array: VariableTracker) -> VariableTracker:
    if not isinstance(array, NdarrayVariable) or array.scalar:
        unsupported(NumpyCall("torch.from_numpy()", f"it is given {array.describe()}"))
    return tensor_of(tx, array)


def _convert(otherwise: Model, copies: bool, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    """``torch.tensor`` or its like, which ``copies`` an array, or shares its memory where the dtype allows it."""
    array = args[0].realize() if len(args) == 1 else None
    if not isinstance(array, NdarrayVariable) or not set(kwargs) <= {"dtype", "device"}:
        return otherwise(tx, [_with_tensors(tx, arg) for arg in args], _with_dtype(tx, args, kwargs))
    if torch._C._len_torch_function_stack():
        return otherwise(tx, args, kwargs)
    named = {name: value for name, value in kwargs.items() if not tx.is_none(value)}
    if copies or array.scalar:
        return record(tx, "to", [array.memory], {**named, "copy": ConstantVariable(True)})
    tensor = record(tx, "to", [array.memory], named) if named else array.memory
    return tensor_of(tx, array) if tensor is array.memory else tensor


def _with_dtype(tx: Translator, args: Args, kwargs: Kwargs) -> Kwargs:
    """The arguments, with the dtype that torch infers if the data contain numpy's scalars: the graph has numbers."""
    data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
    leaves = [] if data is None else [each.realize() for each in structure_leaves(data)]
    has_scalars = any(isinstance(each, NumpyScalarVariable) or _is_scalar_data(each) for each in leaves)
    if data is None or "dtype" in kwargs or not has_scalars:
        return kwargs
    samples = [_sample(tx, each) for each in leaves]
    with unset_fake_temporarily(), torch._C.DisableTorchFunction():
        return {**kwargs, "dtype": ConstantVariable(torch.tensor(samples).dtype)}


def _sample(tx: Translator, leaf: VariableTracker) -> Any:
    """A number of the type that a leaf has."""
    if _is_scalar_data(leaf) or leaf.is_symbolic and leaf.python_type() is int:
        return leaf.python_type()(1)
    return tx.python_value(leaf)


def _is_scalar_data(value: VariableTracker) -> bool:
    return isinstance(value, NdarrayVariable) and value.scalar


def _with_tensors(tx: Translator, data: VariableTracker) -> VariableTracker:
    """The data of ``torch.tensor`` with tensors in place of the numpy scalars in lists, which are data of the graph."""
    if not any(map(_is_scalar_data, structure_leaves(data))):
        return data
    return map_structure(tx, data, lambda leaf: leaf.memory if isinstance(leaf, NdarrayVariable) else leaf)


for _function in (torch.tensor, torch.as_tensor, torch.asarray):
    _otherwise = find_model(_function)
    assert _otherwise is not None
    models_raw(_function, functools.partial(_convert, _otherwise, _function is torch.tensor))


def _to_numpy(tx: Translator, tensor: TensorVariable, force: VariableTracker | None = None) -> VariableTracker:
    """``tensor.numpy()``. With ``force`` it does more only where the graph breaks."""
    fake = tensor.fake
    if fake.requires_grad or fake.device.type != "cpu":
        unsupported(TensorToNumpy("it requires gradients" if fake.requires_grad else f"it is on {fake.device}"))
    if fake.is_conj() or fake.is_neg() or fake.is_inference():
        unsupported(TensorToNumpy("it is conjugated, negated, or was created in inference mode"))
    try:
        numpy_dtype(fake.dtype)
    except TypeError:
        unsupported(TensorToNumpy(f"numpy has no {fake.dtype}"))
    certain(tx, f"numpy() of {tensor.describe()}", _layout, tensor)
    return NdarrayVariable(tensor)


METHODS["numpy"] = _to_numpy
