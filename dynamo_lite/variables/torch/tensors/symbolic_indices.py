"""Indexing tensors by symbols: torch's own would need the number, a selection takes it as it is."""

from __future__ import annotations

import operator
from typing import Any

import torch

from dynamo_lite.insight.break_reasons import DataDependentValue, OperatorFailed
from dynamo_lite.shapes.conditions import symbolic_shapes
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.sequence import ListVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber

from .data_failures import check_failure
from .equivalent_operators import rewrites
from .tensor import TensorVariable, record


def _is_symbol(part: VariableTracker) -> bool:
    return isinstance(part, SymbolicNumber) and part.python_type() is int


def _dimensions(part: VariableTracker) -> tuple[int, int] | None:
    """How many dimensions of the tensor a part of an index is about, and how many there are of the result; None for
    what is no basic index. Of `...` it is not known here."""
    if isinstance(part, SliceVariable) or _is_symbol(part):
        return 1, 1
    known = part.value if isinstance(part, ConstantVariable) else part
    return (1, 0) if type(known) is int else (0, 1) if known is None else (0, 0) if known is Ellipsis else None


def _check_range(tx: Translator, size: Any, index: Any) -> None:
    """An index out of range is an index's error, which a selection says in other words. Of one that hangs on data it is
    seen when the graph runs: then the frame is run again."""
    if index.is_data_dependent:
        check_failure(tx, "indexing")
        tx.graph.fails_handled = True
        return
    known_or_true = symbolic_shapes().guard_or_true
    if not (known_or_true(index.number >= -size) and known_or_true(index.number < size)):
        unsupported(OperatorFailed("indexing", "an index is out of range"))


def _selected(tx: Translator, tensor: VariableTracker, key: VariableTracker) -> VariableTracker | None:
    """The view that an index with symbols in it gives; None: it is not for here."""
    parts = [each.realize() for each in key.items] if isinstance(key, TupleVariable) else [key.realize()]
    if not any(map(_is_symbol, parts)):
        return None
    counts = [_dimensions(part) for part in parts]
    left = tensor.fake.ndim - sum(count[0] for count in counts if count) if isinstance(tensor, TensorVariable) else -1
    if left < 0 or None in counts or counts.count((0, 0)) > 1:
        return None
    if tensor.overloaded_arguments():
        return None
    chosen, dim = [], 0
    for part, count in zip(parts, counts):
        if _is_symbol(part):
            chosen.append((dim, part))
        dim += left if count == (0, 0) else count[1]  # type: ignore[index]
    found = tensor
    if not all(map(_is_symbol, parts)):
        whole: VariableTracker = SliceVariable([ConstantVariable(None)] * 3)
        rest = TupleVariable([whole if _is_symbol(part) else part for part in parts])
        found = record(tx, "call_function", operator.getitem, [tensor, rest], {})
    for dim, part in reversed(chosen):
        _check_range(tx, found.fake.shape[dim], part)  # type: ignore[attr-defined]
        found = record(tx, "call_method", "select", [found, ConstantVariable(dim), part], {})
    return found


@rewrites("getitem")
def _getitem(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    return _selected(tx, *args)


def _is_mask(part: VariableTracker) -> bool:
    part = part.realize()
    if isinstance(part, (TupleVariable, ListVariable)):
        return any(map(_is_mask, part.items))
    return isinstance(part, TensorVariable) and part.fake.dtype in (torch.bool, torch.uint8)


def _check_mask(tx: Translator, name: str, key: VariableTracker, value: VariableTracker) -> None:
    """Where masks choose what is written, its gradient has a size that hangs on data."""
    value = value.realize()
    takes_gradient = isinstance(value, TensorVariable) and value.fake.requires_grad and torch.is_grad_enabled()
    if takes_gradient and _is_mask(key) and not tx.graph.fake_mode.shape_env.allow_dynamic_output_shape_ops:
        unsupported(DataDependentValue(f"the gradient of what {name} writes by a mask"))


@rewrites("index_put", "index_put_")
def _index_put(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    given = dict(zip(("input", "indices", "values"), args)) | kwargs
    if "indices" in given and "values" in given:
        _check_mask(tx, name, given["indices"], given["values"])
    return None


@rewrites("setitem")
def _setitem(tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    tensor, key, value = args
    _check_mask(tx, "an assignment", key, value)
    view = _selected(tx, tensor, key)
    return (
        None
        if view is None
        else record(tx, "call_function", operator.setitem, [view, ConstantVariable(...), value], {})
    )
