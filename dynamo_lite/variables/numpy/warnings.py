"""What numpy warns of, or raises where `numpy.errstate` says so: divisions by zero, overflows, invalid values.

Which of them there are hangs on the data. A graph returns whether there was none, and where there was the frame is run
again as it is: numpy speaks at the program's line, as its settings of that moment say.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

_QUIET = frozenset(
    f"numpy_{name}"
    for name in """getitem T real imag abs absolute fabs neg negative pos positive maximum minimum fmax fmin sign where
    copysign clip floor ceil trunc rint fix nan_to_num conj conjugate nextafter heaviside max min amax amin sort take
    reshape ravel flatten copy transpose swapaxes squeeze diagonal repeat expand_dims moveaxis rollaxis roll flip fliplr
    flipud rot90 diag diagflat tril triu broadcast_to broadcast_arrays array asarray ascontiguousarray zeros ones full
    zeros_like ones_like full_like empty_like eye arange linspace stack concatenate vstack hstack dstack column_stack
    row_stack append tile pad split array_split hsplit vsplit dsplit atleast_1d atleast_2d atleast_3d meshgrid
    resize take_along_axis compress choose angle""".split()
)
"""Functions of which numpy warns of nothing: they compute no numbers, or can't go wrong."""


_SPEAK_OF_NAN = frozenset({numpy.logaddexp, numpy.logaddexp2, numpy.power, numpy.float_power, operator.pow})
"""Functions of which numpy warns also where something strange was given: 0 to the power of minus infinity."""


BY_PARTS = frozenset({numpy.add, numpy.subtract, operator.add, operator.sub})
"""What numpy's kernels make of complex infinities, but for these, hangs on where in a row they are."""


def is_quiet(target: Callable[..., Any]) -> bool:
    return target.__name__ in _QUIET


@functools.cache
def calm(real: Callable[..., Any], of_items: bool, scalars: bool) -> Callable[..., Any]:
    """The target of a node that says of a function's result and arguments that numpy warns of nothing. ``of_items``:
    each item is made of one of each argument; ``scalars``: numpy has other functions for its scalars, which also tell
    of overflows of integers. ``before``: that it warned of nothing until then."""

    excused = of_items and real not in _SPEAK_OF_NAN

    def of_arrays(found: Any, *given: Any) -> Any:
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        if isinstance(found, torch.Tensor) and found.is_complex() and real not in BY_PARTS:
            return functools.reduce(torch.logical_and, [torch.isfinite(each).all() for each in (found, *tensors)])
        return _is_calm(found, tensors, excused)

    def of_scalars(found: Any, *given: Any) -> Any:
        exact = real(*[each.double() if isinstance(each, torch.Tensor) else each for each in given])
        return (exact - found.double()).abs() < 2.0 ** (8 * found.element_size() - 2)

    says = of_scalars if scalars else of_arrays

    def made(*values: Any, before: Any = None) -> Any:
        return says(*values) if before is None else before & says(*values)

    made.__name__ = made.__qualname__ = "numpy_is_calm"
    return made


def _is_calm(found: Any, given: Sequence[torch.Tensor], excused: bool) -> torch.Tensor:
    """``excused``: NaN and infinities that come of such that were given. (Of half precision numpy converts them with a
    word.)"""
    if isinstance(found, (tuple, list)):
        return functools.reduce(torch.logical_and, [_is_calm(each, given, excused) for each in found])
    floats = [each for each in given if _is_inexact(each)]
    if not _is_inexact(found):  # a cast
        low, high = (float(end) for end in (torch.iinfo(found.dtype).min, torch.iinfo(found.dtype).max))
        ends = [((each > low - 1) & (each < high + 1)).all() for each in floats]
        return functools.reduce(torch.logical_and, ends, torch.ones((), dtype=torch.bool))
    if not excused or any(each.dtype is torch.float16 for each in floats):
        return torch.isfinite(found).all()
    finite = functools.reduce(torch.logical_or, [~torch.isfinite(each) for each in floats], torch.isfinite(found))
    fine = functools.reduce(torch.logical_or, [torch.isnan(each) for each in floats], ~torch.isnan(found))
    return (finite & fine).all()


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()
