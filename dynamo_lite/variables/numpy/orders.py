"""numpy: the order of items. That of equal ones, and of NaN, is numpy's own where the program asks for no stable one: a
graph goes on with items that all differ."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable

from .numpy import ON_ARRAYS, NdarrayVariable, call, expect
from .targets import function_of_torch


def numpy_is_one_order(items: torch.Tensor, order: torch.Tensor, axis: int | None, before: Any = None) -> torch.Tensor:
    """Whether no other order of these items is ascending."""
    if axis is None:
        items, axis = items.reshape(-1), 0
    size = items.shape[axis]
    ordered = torch.take_along_dim(items, order, axis)
    low, high = ordered.narrow(axis, 0, size - 1), ordered.narrow(axis, 1, size - 1)
    found = ((low < high) | (low == low) & (high != high)).all()
    return found if before is None else before & found


_LAST = ConstantVariable(-1)


def _argsort(
    tx: Any,
    a: NdarrayVariable,
    axis: VariableTracker = _LAST,
    kind: Any = None,
    order: Any = None,
    *,
    stable: Any = None,
) -> VariableTracker:
    target = function_of_torch(numpy.argsort)
    assert target is not None
    named = {"axis": axis, "kind": kind, "order": order, "stable": stable}
    named = {name: value for name, value in named.items() if value is not None}
    axis = axis.realize()
    is_axis = isinstance(axis, ConstantVariable) and type(axis.value) in (int, type(None))
    if len(named) > 1 or not is_axis or a.fake.dtype is torch.bool or not a.fake.numel():
        return call(tx, target, numpy.argsort, [a], named)
    found = call(tx, target, numpy.argsort, [a], {"axis": axis, "kind": ConstantVariable("stable")})
    assert isinstance(found, NdarrayVariable)
    expect(tx, numpy_is_one_order, [a.items(tx), found.memory, axis])
    return found


ON_ARRAYS.update({"argsort": _argsort, numpy.argsort: _argsort})
