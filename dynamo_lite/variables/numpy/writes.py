"""Writes into arrays: assignment to items, and the operators that assign in place.

torch's assignment is recorded on the array's memory. It is numpy's if the value's dtype is one that numpy and torch
convert alike, and if neither the order of the written items nor an overlap of value and target can matter.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy
from torch import uint8

from dynamo_lite.insight.break_reasons import DataDependentValue, FailureAndWrite, NumpyWrite
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.base import Args, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .node_targets import numpy_dtype
from .scalars import NumpyScalarVariable
from .trials import ArrayVariable

_EXACT = 1 << 53
"""Integers up to this are doubles: numpy converts one to float32 by way of a double."""


def assign(tx: Translator, array: ArrayVariable, key: VariableTracker, value: VariableTracker) -> None:
    """``array[key] = value``."""
    if array.scalar:
        _refuse("a numpy scalar takes no items")
    indices = indices_of(key)
    has_arrays = any(isinstance(each, (ArrayVariable, ListVariable)) for each in indices)
    given = _converted(tx, array, value.realize())
    if has_arrays:
        if isinstance(given, TensorVariable) and given.fake.ndim:
            _refuse("an index may name one item twice")
        check_indices_at_run_time(tx.graph)
    memory = record(tx, getattr, [array.memory, ConstantVariable("data")], {})  # numpy knows no version counter
    places = [_index(each) for each in indices]
    memory.setitem(tx, TupleVariable(places) if isinstance(key.realize(), TupleVariable) else places[0], given)


def assign_in_place(tx: Translator, array: ArrayVariable, result: VariableTracker) -> None:
    """Assign the ``result`` of an operator on the array to all of its items."""
    if not isinstance(result, ArrayVariable) or result.fake.shape != array.fake.shape:
        _refuse("the result has another shape")
    assign(tx, array, ConstantVariable(...), result)


def check_indices_at_run_time(graph: GraphBuilder) -> None:
    """If an index is out of range, the graph raises: then the frame runs again in eager, and numpy raises its error."""
    if not graph.can_restore_inputs():
        unsupported(FailureAndWrite("indexing of a numpy array"))
    graph.fails_handled = True


def indices_of(key: VariableTracker) -> Args:
    key = key.realize()
    return [each.realize() for each in (key.items if isinstance(key, TupleVariable) else [key])]


def has_negative_step(index: VariableTracker) -> bool:
    step = index.parts[2].realize() if isinstance(index, SliceVariable) else None
    return isinstance(step, ConstantVariable) and type(step.value) is int and step.value < 0


def _index(index: VariableTracker) -> VariableTracker:
    """An index as one of torch's that means the same."""
    if isinstance(index, ArrayVariable):
        if index.scalar:
            unsupported(DataDependentValue("indexing by a numpy scalar"))
        if index.fake.dtype is uint8 or index.fake.is_floating_point() or not index.fake.ndim:
            _refuse("torch takes the index for another one")
        return index.memory
    if isinstance(index, SliceVariable):
        if has_negative_step(index):
            _refuse("a slice has a negative step")
        return index
    if isinstance(index, ListVariable) and all(type(each.realize()) is ConstantVariable for each in index.items):
        if all(type(each.as_constant()) is int for each in index.items):
            return index
    is_number = isinstance(index, (SymNodeVariable, NumpyScalarVariable)) or type(index) is ConstantVariable
    if not is_number or issubclass(index.python_type(), (bool, numpy.bool_, float, complex)):
        _refuse(f"an index is {index.describe()}")
    return index


def _converted(tx: Translator, array: ArrayVariable, value: VariableTracker) -> VariableTracker:
    """The value as one that torch's assignment converts to the array's dtype as numpy does."""
    target = numpy_dtype(array.fake.dtype)
    if isinstance(value, ArrayVariable):
        if not _is_converted_alike(numpy_dtype(value.fake.dtype), target):
            _refuse(f"numpy converts {numpy_dtype(value.fake.dtype)} to {target}")
        if value.fake.dtype != array.fake.dtype:
            return record(tx, "to", [value.memory, ConstantVariable(array.fake.dtype)], {})
        is_shared = share_memory(value.fake, array.fake)
        return record(tx, "clone", [value.memory], {}) if is_shared else value.memory
    number = value.as_constant() if isinstance(value, (ConstantVariable, NumpyScalarVariable)) else None
    if isinstance(number, numpy.generic) and _is_converted_alike(number.dtype, target):
        number = number.item()
    if type(number) not in (bool, int, float) or not _is_number_of(number, target):
        _refuse(f"numpy converts {value.describe()} to {target}")
    return ConstantVariable(number)


def _is_converted_alike(dtype: Any, target: Any) -> bool:
    is_half = numpy.float16 in (dtype, target)  # numpy rounds a number once, torch twice
    return dtype == target or numpy.can_cast(dtype, target, "same_kind") and not is_half


def _is_number_of(number: Any, target: Any) -> bool:
    if isinstance(number, bool):
        return True
    if target.kind in "iu":
        limits = numpy.iinfo(target)
        return isinstance(number, int) and bool(limits.min <= number <= limits.max)
    return target in (numpy.float32, numpy.float64) and (isinstance(number, float) or abs(number) <= _EXACT)


def _refuse(why: str) -> NoReturn:
    unsupported(NumpyWrite("an assignment to items", why))
