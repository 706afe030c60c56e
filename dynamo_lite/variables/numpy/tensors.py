"""Arrays that are inputs of the graph, and tensors that share an array's memory."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite.insight.break_reasons import DataDependentValue, UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.graph_functions import from_numpy_written
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import find_model, models, models_raw, provides
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .numpy import NdarrayVariable
from .targets import numpy_dtype


@wraps_type(numpy.ndarray)
def _wrap_array(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    """An input of the graph, as the tensor that shares its memory."""
    if source.kind == "const" or not _has_tensor(value):
        return attempt.values.opaque(value, source, "a numpy array that no tensor can stand for")
    source.check("type", numpy.ndarray)
    source.child("c_attr", "dtype").check("id", value.dtype)
    source.child("c_attr", "flags").child("c_attr", "writeable").check("equals", True)
    with unset_fake_temporarily():
        shared = torch.from_numpy(value)
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
    attempt.values.fakes[id(given.fake)] = tensor
    return NdarrayVariable(tensor, False, source)


def _has_tensor(value: Any) -> bool:
    if not value.flags.writeable or not value.flags.aligned:
        return False
    try:
        with unset_fake_temporarily():
            torch.from_numpy(value)
    except (TypeError, ValueError):
        return False
    return True


# -- from and to tensors -----------------------------------------------------------------------------------------------


class TensorOfArray(TensorVariable):
    """A tensor that has an array's memory, in a storage and with a count of writes of its own."""

    __slots__ = ("array",)
    array: NdarrayVariable

    def reconstruct(self, cg: Codegen) -> None:
        if cg.attempt.provenance.is_created_leaf(self) or self in cg.attempt.before_graph.created:
            super().reconstruct(cg)
        elif self.fake.requires_grad or _layout(self.fake) != _layout(self.array.fake):
            raise NotConstant(self.describe())
        else:
            writes = self.fake._version
            given = [lambda: cg.load(self.array), *([lambda: cg.load_const(writes)] if writes else [])]
            cg.call(from_numpy_written if writes else torch.from_numpy, given)


def _layout(fake: torch.Tensor) -> Any:
    return fake.shape, fake.stride()


def tensor_of(tx: Translator, array: NdarrayVariable) -> VariableTracker:
    if not array.fake.numel():  # to torch an array of nothing has no strides
        return record(tx, "call_method", "detach", [array.memory], {})
    found = record(tx, "call_function", getattr, [array.memory, ConstantVariable("data")], {})
    assert isinstance(found, TensorVariable)
    made = TensorOfArray(found.node, found.fake, torch.Tensor)
    made.array = array
    tx.attempt.values.fakes[id(found.fake)] = made
    tx.attempt.values.array_tensors.append(made)
    tx.attempt.provenance.created(made)
    return made


@models(torch.from_numpy)
def _from_numpy(tx: Translator, array: VariableTracker) -> VariableTracker:
    if not isinstance(array, NdarrayVariable) or array.scalar:
        unsupported(UnsupportedOperation("torch.from_numpy()", array.describe()))
    return tensor_of(tx, array)


def _takes_arrays(function: Any, copies: bool) -> None:
    """``torch.tensor`` and its like: of an array the result is a tensor of its own, which may share its memory."""
    otherwise = find_model(function)
    assert otherwise is not None

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        array = args[0].realize() if len(args) == 1 else None
        if not isinstance(array, NdarrayVariable) or not set(kwargs) <= {"dtype", "device"}:
            return otherwise(tx, args, kwargs)
        if torch._C._len_torch_function_stack():
            return otherwise(tx, args, kwargs)
        named = {name: value for name, value in kwargs.items() if not tx.is_none(value)}
        if copies or array.scalar:
            return record(tx, "call_method", "to", [array.memory], {**named, "copy": ConstantVariable(True)})
        found = record(tx, "call_method", "to", [array.memory], named) if named else array.memory
        return tensor_of(tx, array) if found is array.memory else found

    models_raw(function, model)


_takes_arrays(torch.tensor, True)
_takes_arrays(torch.as_tensor, False)
_takes_arrays(torch.asarray, False)


@provides("to_array")
def array_of(tx: Translator, tensor: TensorVariable) -> VariableTracker:
    """``tensor.numpy()``."""
    fake = tensor.fake
    if fake.requires_grad or fake.device.type != "cpu" or fake.is_conj() or fake.is_neg() or fake.is_inference():
        unsupported(DataDependentValue("Tensor.numpy() of such a tensor"))
    try:
        numpy_dtype(fake.dtype)
    except TypeError:
        unsupported(DataDependentValue(f"Tensor.numpy() of {fake.dtype}"))
    return NdarrayVariable(tensor)
