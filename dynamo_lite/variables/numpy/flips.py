"""numpy: views that go backwards through memory, as ``a[::-1]``. Torch has no negative strides.

Such an array is known as a view that goes forwards, a tensor of the graph with its memory, and the axes that go the
other way. So what is written into either is seen by the other. Where its items are computed with they are a flipped
copy, made there. What leaves the graph is indexed again outside.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
import torch

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.python.containers.sequence import SliceVariable, TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import ShapeNumber

_ALL = slice(None)
_BACK = slice(None, None, -1)


def reversal(axes: Sequence[int]) -> tuple[Any, ...]:
    """The index that turns these axes round. (With ``...`` that of no axis gives an array.)"""
    return *(_BACK if axis in axes else _ALL for axis in range(max(axes, default=-1) + 1)), ...


def backwards(array: Any) -> tuple[int, ...]:
    """The axes of an array that go backwards through memory."""
    return tuple(axis for axis, step in enumerate(array.strides) if step < 0)


def flipped_of(tensor: torch.Tensor, axes: tuple[int, ...]) -> Any:
    return tensor.numpy()[reversal(axes)]


class Forwards(NamedTuple):
    """What an index of an array is to the tensor that goes forwards."""

    key: list[VariableTracker]
    axes: tuple[int, ...]
    """Those of the result that go backwards."""


def forwards(tx: Any, key: VariableTracker, shape: Sequence[Any], flips: Sequence[int]) -> Forwards | None:
    """Of integers, slices, ``...`` and None; None where the index is another, or does not fit, or goes forwards itself
    in an array that does."""
    parts = [part.realize() for part in key.items] if isinstance(key, TupleVariable) else [key]
    if not (flips or any(isinstance(part, SliceVariable) and _step(part) < 0 for part in parts)):
        return None
    known = [_known(part) for part in parts]
    axes = sum(part is not None and part is not ... for part in known)
    gaps = sum(part is ... for part in known)
    if any(part is _OTHER for part in known) or axes > len(shape) or gaps > 1:
        return None
    found: list[VariableTracker] = []
    back: list[bool] = []
    """Of each axis of the result, whether it goes backwards."""
    axis = 0
    for part, value in zip(parts, known):
        if value is ...:
            rest = range(axis, axis + len(shape) - axes)
            back += [each in flips for each in rest]
            axis += len(rest)
        elif value is None:
            back.append(False)
        else:
            is_back = axis in flips
            if isinstance(part, SliceVariable):
                part, is_back = _slice_forwards(tx, part, shape[axis], is_back)
                back.append(is_back)
            elif is_back:  # from the other end
                part = tx.make(-value - 1)
            axis += 1
        found.append(part)
    back += [each in flips for each in range(axis, len(shape))]
    return Forwards(found, tuple(at for at, is_back in enumerate(back) if is_back))


_OTHER = object()


def _known(part: VariableTracker) -> Any:
    """A number, perhaps a symbol, None or ``...``; of a slice, of numbers too, an empty tuple."""
    if isinstance(part, ShapeNumber):
        return part.number if isinstance(part.number, torch.SymInt) else _OTHER
    if isinstance(part, SliceVariable):
        ends = [_known(each.realize()) for each in part.parts]
        fits = all(each is None or isinstance(each, (int, torch.SymInt)) for each in ends)
        return () if fits and _step(part) else _OTHER
    known = part.as_constant() if part.is_constant() else _OTHER
    if known is None or known is ...:
        return known
    is_number = hasattr(type(known), "__index__") and not isinstance(known, (bool, numpy.bool_, numpy.ndarray))
    return operator.index(known) if is_number else _OTHER


def _step(part: SliceVariable) -> int:
    """The step of a slice; 0: it is none, or differs from call to call."""
    step = _known(part.parts[2].realize())
    return 1 if step is None else step if isinstance(step, int) else 0


def _slice_forwards(tx: Any, part: SliceVariable, size: Any, is_back: bool) -> tuple[VariableTracker, bool]:
    """The slice that takes the same items in the order of memory, and whether that is the other order."""
    step = _step(part)
    if step > 0 and not is_back:
        return part, False
    start, stop = (_known(each.realize()) for each in part.parts[:2])
    if start is None and stop is None and abs(step) == 1:
        return tx.make(_ALL), (step < 0) is not is_back
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = (low if step > 0 else high) if start is None else _bound(start, size, low, high)
    end = (high if step > 0 else low) if stop is None else _bound(stop, size, low, high)
    count = (end - first + step - (1 if step > 0 else -1)) // step
    back = (step < 0) is not is_back
    if count <= 0:
        return tx.make(slice(0, 0)), back
    last = first + (count - 1) * step
    if is_back:
        first, last = size - 1 - first, size - 1 - last
    low, high = (last, first) if back else (first, last)
    return SliceVariable([tx.make(each) for each in (low, high + 1, abs(step))]), back


def _bound(end: Any, size: Any, low: Any, high: Any) -> Any:
    """As CPython takes the ends of slices."""
    end = end + size if end < 0 else end
    return low if end < low else high if end > high else end
