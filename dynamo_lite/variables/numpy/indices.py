"""numpy: writes of items that arrays of integers, or masks, pick.

Of the items that are written to one place the last one stays in numpy, and any in torch. So the graph reads back what
it wrote: where each place has all that was written to it, they were the same. It returns that as a condition, and
whether every index was in range; where it fails, CPython runs the frame again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
import torch

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.python.containers.sequence import ListVariable, SliceVariable, TupleVariable


class Picked(NamedTuple):
    """An index in two: of a view, and of that view's items by integers and arrays of them."""

    view: list[VariableTracker]
    axes: list[int]
    indices: list[VariableTracker]


def split(key: VariableTracker, ndim: int) -> Picked | None:
    """None where it has more parts than there are axes."""
    parts = [part.realize() for part in (key.items if isinstance(key, TupleVariable) else [key])]
    plain = [part.as_constant() if isinstance(part, ConstantVariable) else part for part in parts]
    rest = ndim - sum(part is not None and part is not ... for part in plain)
    if rest < 0 or sum(part is ... for part in plain) > 1:
        return None
    found = Picked([], [], [])
    axis = 0
    for part, known in zip(parts, plain):
        if known is ... or known is None or isinstance(part, SliceVariable):
            found.view.append(part)
        else:
            found.view.append(SliceVariable([ConstantVariable(None)] * 3))
            found.axes.append(axis)
            found.indices.append(part)
        axis += rest if known is ... else 1
    return found


def picks_each_once(indices: Sequence[VariableTracker]) -> bool:
    """Whether known indices are all different, counted from one end."""
    many = [known_numbers(each) for each in indices if not isinstance(each, ConstantVariable)]
    return all(each is not None and _are_apart(each) for each in many)


def _are_apart(numbers: list[int]) -> bool:
    return len(set(numbers)) == len(numbers) and len({number < 0 for number in numbers}) < 2


def known_numbers(variable: VariableTracker) -> list[Any] | None:
    """Those that sequences are made of, and a number; None where there is something else."""
    variable = variable.realize()
    if isinstance(variable, (ListVariable, TupleVariable)):
        parts = [known_numbers(item) for item in variable.items]
        return None if None in parts else [each for part in parts for each in part or ()]
    known = variable.value if isinstance(variable, ConstantVariable) else None
    return [known] if type(known) in (int, float, bool, complex) else None


def spread(values: Any, count: int) -> Any:
    """Arguments of a trial with items that differ, up to so many of them."""
    if isinstance(values, numpy.ndarray):
        return (numpy.arange(values.size) % count).astype(values.dtype).reshape(values.shape)
    if isinstance(values, (list, tuple)):
        return type(values)(spread(each, count) for each in values)
    return values * 0 if isinstance(values, numpy.integer) else values


def numpy_set_at(
    memory: torch.Tensor,
    flips: tuple[int, ...],
    axes: Sequence[int],
    indices: Sequence[Any],
    value: Any,
    before: torch.Tensor | None = None,
) -> torch.Tensor:
    """Write the items, and return whether that is what numpy writes. ``flips``: the axes along which the array goes
    backwards; ``before``: a condition that is to hold too."""
    items = torch.flip(memory, flips) if flips else memory
    found, fits = _in_range(items, axes, indices, before)
    new = torch.as_tensor(value, dtype=items.dtype)
    torch.ops.aten.index_put_(items, found, new)
    if new.dim():
        fits = fits & (bits(torch.ops.aten.index(items, found)) == bits(new)).all()
    if flips:
        memory.copy_(torch.flip(items, flips))
    return fits


def numpy_item_at(memory: torch.Tensor, axes: Sequence[int], indices: Sequence[Any]) -> torch.Tensor:
    """One item of the array, which `numpy_is_in_range` tells of."""
    return torch.ops.aten.index(memory, _in_range(memory, axes, indices, None)[0])


def numpy_is_in_range(
    memory: torch.Tensor, axes: Sequence[int], indices: Sequence[Any], before: torch.Tensor | None = None
) -> torch.Tensor:
    return _in_range(memory, axes, indices, before)[1]


def _in_range(
    items: torch.Tensor, axes: Sequence[int], indices: Sequence[Any], before: torch.Tensor | None
) -> tuple[list[torch.Tensor | None], torch.Tensor]:
    """Indices of all axes, of which those that are out of range are others, and whether there are none."""
    found: list[torch.Tensor | None] = [None] * items.dim()
    for axis, given in zip(axes, indices):
        index = torch.as_tensor(given, dtype=torch.int64)
        size = items.shape[axis]
        found[axis] = inside = index.clamp(-size, size - 1)
        fits = (inside == index).all()
        before = fits if before is None else before & fits
    assert before is not None
    return found, before


def numpy_set_where(
    memory: torch.Tensor, flips: tuple[int, ...], mask: torch.Tensor, value: Any, before: torch.Tensor | None = None
) -> torch.Tensor:
    """The same for the items where a mask of the array's shape is true: one of the values for each of them, or one for
    all."""
    items = torch.flip(memory, flips) if flips else memory
    new = torch.as_tensor(value, dtype=items.dtype)
    fits = torch.ones((), dtype=torch.bool) if before is None else before
    if new.dim():
        places = mask.reshape(-1).cumsum(0)
        if new.shape[0] != 1:
            fits = fits & (places[-1:].sum() == new.shape[0])
        new = new[(places - 1).clamp(0, new.shape[0] - 1)].reshape(items.shape)
    items = torch.where(mask, new, items)
    memory.copy_(torch.flip(items, flips) if flips else items)
    return fits


def bits(items: torch.Tensor) -> torch.Tensor:
    """As integers, by which zeros of either sign are told apart and NaN is what it is."""
    if items.is_complex():
        items = torch.view_as_real(items.resolve_conj())
    return items.view(_INTEGERS[items.element_size()]) if items.is_floating_point() else items


_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
for _target in (numpy_set_at, numpy_set_where):
    torch.fx.node.has_side_effect(_target)
