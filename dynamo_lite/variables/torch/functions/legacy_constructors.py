"""Constructors of tensor types: ``torch.Tensor(2, 3)``, ``torch.LongTensor([1, 2])``.

Integers and a `torch.Size` are sizes, other sequences are data.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import LegacyConstructor, UnknownCall
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.invariant_reads import refuse_read
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.classes.classes import ClassVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SizeVariable, TupleVariable
from dynamo_lite.variables.python.containers.structures import structure_leaves
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber
from dynamo_lite.variables.torch.tensors.tensor import METHODS, TensorVariable, record

TYPES: tuple[Any, ...] = (
    *(torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.BFloat16Tensor, torch.BoolTensor),
    *(torch.ByteTensor, torch.CharTensor, torch.ShortTensor, torch.IntTensor, torch.LongTensor),
)


def _construct(cls: Any, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
    given = [arg.realize() for arg in args]
    is_base = cls is torch.Tensor
    if is_base and tx.graph.scope.in_backward:
        refuse_read("the default dtype")
    if kwargs or (is_base and torch._C._get_default_device() != "cpu"):
        unsupported(LegacyConstructor(cls.__name__, "it may create a tensor on another device"))
    if is_base and len(given) == 1 and _is_plain(given[0]):
        return record(tx, torch.ops.aten.alias.default, given, {})
    named: Kwargs = {
        "dtype": ConstantVariable(torch.get_default_dtype() if is_base else cls.dtype),
        "device": ConstantVariable(torch.device("cpu")),
    }
    if not given:
        given = [ConstantVariable(0)]
    if len(given) == 1 and isinstance(given[0], (ListVariable, TupleVariable)):
        if isinstance(given[0], SizeVariable):
            return record(tx, torch.empty, given, named)
        if all(_is_datum(each, named["dtype"].as_constant()) for each in structure_leaves(given[0])):
            return tx.call(tx.make(torch.tensor), given, named)
    elif all(_is_number(each, int) for each in given):
        return record(tx, torch.empty, [TupleVariable(given)], named)
    unsupported(LegacyConstructor(cls.__name__, "its arguments are neither sizes nor a sequence of numbers"))


def _is_plain(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) and not value.overloaded_arguments() and value.fake.device.type == "cpu"


def _is_number(value: VariableTracker, *kinds: type) -> bool:
    return isinstance(value, (ConstantVariable, SymbolicNumber)) and value.python_type() in kinds


def _is_datum(value: VariableTracker, dtype: torch.dtype) -> bool:
    if value.is_taken_as_number:  # a number of another library
        return type(value.as_fx()[0]) in (int, float) and (dtype.is_floating_point or type(value.as_fx()[0]) is int)
    return not value.fake.ndim if isinstance(value, TensorVariable) else _is_number(value, int, float, bool)


def _of_type(
    tx: Translator, tensor: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker
) -> VariableTracker:
    """``tensor.type(torch.LongTensor)`` is recorded by the type's dtype, as a graph can't name the type."""
    kind = next(iter((*args, *kwargs.values())), None)
    if isinstance(kind, ClassVariable):
        if not any(kind.value is each for each in TYPES) or tensor.fake.device.type != "cpu":
            unsupported(UnknownCall("Tensor.type()", "it may create a tensor on another device"))
        dtype = ConstantVariable(kind.value.dtype)
        args, kwargs = ((dtype, *args[1:]), kwargs) if args else ((), {**kwargs, "dtype": dtype})
    return record(tx, "type", [tensor, *args], kwargs)


METHODS["type"] = _of_type
for _cls in (torch.Tensor, *TYPES):
    models_raw(_cls, functools.partial(_construct, _cls))
