"""Indexing a tensor by a symbolic int: ``tensor[i]`` would specialize it, so `select` is recorded instead. Indexing by
a tensor without dimensions that ``vmap`` maps over. Other operators whose shapes depend on numbers in tensors."""

from __future__ import annotations

import operator
from typing import TypeGuard

import torch

from dynamo_lite.insight.break_reasons import DataDependentValue, FailsInPython, FailureAndWrite, OperatorFailed
from dynamo_lite.records.graph import GraphBuilder
from dynamo_lite.records.subgraphs import is_mapped
from dynamo_lite.runtime import graph_functions
from dynamo_lite.shapes.expressions import symbolic_shapes
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.class_lookup import MISSING, class_lookup
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.python.containers.sequences import ListVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable

from .equivalent_operators import rewrites
from .runtime_failures import check_failure
from .tensor import TensorVariable, record

_ELLIPSIS = (0, 0)


def _is_symbolic(index: VariableTracker) -> TypeGuard[SymNodeVariable]:
    return isinstance(index, SymNodeVariable) and index.python_type() is int


def _dimensions(index: VariableTracker) -> tuple[int, int] | None:
    """How many dimensions of the tensor an index consumes, and how many it adds to the result.

    None if it is no basic index; `_ELLIPSIS` if it is ``...``, whose count depends on the others.
    """
    if isinstance(index, SliceVariable) or _is_symbolic(index):
        return 1, 1
    value = index.value if isinstance(index, ConstantVariable) else index
    return (1, 0) if type(value) is int else (0, 1) if value is None else _ELLIPSIS if value is Ellipsis else None


def _check_range(tx: Translator, size: int | torch.SymInt, index: SymNodeVariable) -> None:
    """Break the graph if the index is out of range: indexing raises another error then than `select`.

    An index that depends on data is checked by the kernel. If that raises, the frame is run again in eager.
    """
    if index.is_data_dependent:
        if not tx.graph.can_restore_inputs():
            unsupported(FailureAndWrite("indexing"))
        check_failure(tx, "indexing")
        tx.graph.fails_handled = True
        return
    guard_or_true = symbolic_shapes().guard_or_true
    if not (guard_or_true(index.number >= -size) and guard_or_true(index.number < size)):
        unsupported(OperatorFailed("indexing", "an index is out of range"))


def _select(tx: Translator, tensor: VariableTracker, key: VariableTracker) -> VariableTracker | None:
    """The view ``tensor[key]`` for a key with symbolic ints; None if it has none or isn't a basic index."""
    indices = [each.realize() for each in key.items] if isinstance(key, TupleVariable) else [key.realize()]
    if not any(map(_is_symbolic, indices)) or not isinstance(tensor, TensorVariable) or tensor.overloaded_arguments():
        return None
    counts = [count for count in map(_dimensions, indices) if count is not None]
    unindexed = tensor.fake.ndim - sum(consumed for consumed, _ in counts)
    if unindexed < 0 or len(counts) < len(indices) or counts.count(_ELLIPSIS) > 1:
        return None
    selections: list[tuple[int, SymNodeVariable]] = []
    dim = 0
    for index, count in zip(indices, counts):
        if _is_symbolic(index):
            selections.append((dim, index))
        dim += unindexed if count == _ELLIPSIS else count[1]
    view: VariableTracker = tensor
    if len(selections) < len(indices):
        everything = SliceVariable([ConstantVariable(None)] * 3)
        others = TupleVariable([everything if _is_symbolic(index) else index for index in indices])
        view = record(tx, operator.getitem, [tensor, others], {})
    for dim, symbolic in reversed(selections):
        _check_range(tx, view.as_fx()[1].shape[dim], symbolic)
        view = record(tx, "select", [view, ConstantVariable(dim), symbolic], {})
    return view


@rewrites("getitem")
def _getitem(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    tensor, key = args
    if _is_mapped_index(tx.graph, tensor, key):
        return record(tx, graph_functions.getitem_mapped, [tensor, _indices(key)], {})
    return _select(tx, tensor, key)


def _is_mapped_index(graph: GraphBuilder, tensor: VariableTracker, key: VariableTracker) -> bool:
    """Whether an index without dimensions differs from one element to the next that a ``vmap`` maps over, so that
    indexing takes it for a tensor, not for a number."""
    if not graph.scope.is_nested or not isinstance(tensor, TensorVariable) or tensor.overloaded_arguments():
        return False
    found = [each for each in _indices(key).items if isinstance(each, TensorVariable)]
    are_integers = all(each.cls is torch.Tensor and each.fake.dtype in _INTEGERS for each in found)
    return are_integers and any(not each.fake.ndim and is_mapped(each.node, graph.scope.nesting) for each in found)


def _indices(key: VariableTracker) -> TupleVariable:
    return TupleVariable([each.realize() for each in (key.items if isinstance(key, TupleVariable) else [key])])


_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def _has_mask(index: VariableTracker) -> bool:
    index = index.realize()
    if isinstance(index, (TupleVariable, ListVariable)):
        return any(map(_has_mask, index.items))
    return isinstance(index, TensorVariable) and index.fake.dtype in (torch.bool, torch.uint8)


def _check_mask(tx: Translator, name: str, key: VariableTracker, value: VariableTracker) -> None:
    """Break the graph for a write through a mask if the written value's gradient would have a data-dependent size."""
    value = value.realize()
    has_gradient = isinstance(value, TensorVariable) and value.fake.requires_grad and torch.is_grad_enabled()
    shape_env = tx.graph.fake_mode.shape_env
    assert shape_env is not None
    if has_gradient and _has_mask(key) and not shape_env.allow_dynamic_output_shape_ops:
        if not tx.attempt.traits.masked_writes:
            unsupported(DataDependentValue(f"the gradient of the value that {name} writes through a mask"))
        tx.attempt.has_masked_writes = True


@rewrites("index_put", "index_put_")
def _index_put(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    arguments = dict(zip(("input", "indices", "values"), args)) | kwargs
    if "indices" in arguments and "values" in arguments:
        _check_mask(tx, name, arguments["indices"], arguments["values"])
    return None


def _check_assigned_type(value: VariableTracker) -> None:
    """Break the graph where another library's scalar is assigned that is neither an integer nor derived from Python's
    float or complex. Other operators take such a scalar; an assignment raises TypeError."""
    kind = value.python_type()
    is_number = issubclass(kind, (int, float, complex)) or class_lookup(kind, "__index__") is not MISSING
    if value.is_taken_as_number and not is_number:
        unsupported(FailsInPython("an assignment to a tensor's items", f"it takes no {kind.__name__}"))


@rewrites("setitem", "__setitem__")
def _setitem(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    tensor, key, value = args
    _check_assigned_type(value.realize())
    if _is_mapped_index(tx.graph, tensor, key):
        return record(tx, graph_functions.setitem_mapped, [tensor, _indices(key), value], {})
    _check_mask(tx, "an assignment", key, value)
    view = _select(tx, tensor, key)
    if view is None:
        return None
    return record(tx, operator.setitem, [view, ConstantVariable(...), value], {})


@rewrites("squeeze", "squeeze_")
def _squeeze(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """torch assumes that a size which depends on data isn't 1, and so that `squeeze` keeps its dimension: asserted."""
    tensor, ndim = args[0].realize(), 0
    if tx.graph.symbols.of_data and isinstance(tensor, TensorVariable):
        sizes, ndim = tensor.fake.shape, tensor.fake.ndim
    given = [*args[1:], *kwargs.values()]
    dims = tx.python_value(given[0]) if ndim and given else range(ndim)
    for dim in (dims,) if isinstance(dims, int) else dims:
        size = sizes[dim] if -ndim <= dim < ndim else 0
        is_kept = size != 1
        if isinstance(is_kept, torch.SymBool) and tx.graph.symbols.is_data_dependent(is_kept):
            tx.graph.assert_condition(is_kept, SymNodeVariable(tx.attempt, is_kept).as_fx()[0])
    return None


@rewrites("tensor_split")
def _tensor_split(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    if len(args) < 2:
        return None
    places = args[1].realize()
    if not isinstance(places, TensorVariable) or places.fake.dtype is not torch.int64 or places.fake.ndim > 1:
        return None
    if places.fake.device.type != "cpu":
        return None
    numbers = places.known_numbers(tx)
    return None if numbers is None else record(tx, torch.tensor_split, [args[0], numbers, *args[2:]], kwargs)
