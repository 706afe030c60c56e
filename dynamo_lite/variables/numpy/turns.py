"""numpy: functions that turn arrays round. Their results are views."""

from __future__ import annotations

from typing import Any

import numpy

from dynamo_lite.insight.break_reasons import OperatorFailed
from dynamo_lite.variables.core.base import VariableTracker, unsupported

from .flips import reversal
from .numpy import ON_ARRAYS, NdarrayVariable, call
from .targets import function_of_torch


def _flip(tx: Any, array: NdarrayVariable, axis: VariableTracker | None = None) -> VariableTracker:
    return array.getitem(tx, tx.make(reversal(_axes_of(array, None if axis is None else axis.python_value(tx)))))


def _flipud(tx: Any, array: NdarrayVariable) -> VariableTracker:
    return array.getitem(tx, tx.make(reversal(_axes_of(array, 0))))


def _fliplr(tx: Any, array: NdarrayVariable) -> VariableTracker:
    return array.getitem(tx, tx.make(reversal(_axes_of(array, 1))))


def _rot90(
    tx: Any, array: NdarrayVariable, k: VariableTracker | None = None, axes: VariableTracker | None = None
) -> VariableTracker:
    pair = _axes_of(array, (0, 1) if axes is None else tuple(axes.python_value(tx)))
    times = 1 if k is None else k.python_value(tx)
    if len(set(pair)) != 2 or not isinstance(times, int):
        unsupported(OperatorFailed("rot90", "two axes and a number of times are wanted"))
    order = list(range(array.fake.ndim))
    order[pair[0]], order[pair[1]] = pair[1], pair[0]
    back = {0: (), 1: pair[1:], 2: pair, 3: pair[:1]}[times % 4]
    found = array.getitem(tx, tx.make(reversal(back)))
    if times % 2 == 0:
        return found
    target = function_of_torch(numpy.transpose)
    assert target is not None
    return call(tx, target, numpy.transpose, [found, tx.make(tuple(order))], {})


def _axes_of(array: NdarrayVariable, axis: Any) -> tuple[int, ...]:
    every = range(array.fake.ndim)
    try:
        return tuple(every[each] for each in (every if axis is None else axis if isinstance(axis, tuple) else (axis,)))
    except (IndexError, TypeError) as error:
        unsupported(OperatorFailed("a turn", str(error)))


ON_ARRAYS.update({numpy.flip: _flip, numpy.flipud: _flipud, numpy.fliplr: _fliplr, numpy.rot90: _rot90})
