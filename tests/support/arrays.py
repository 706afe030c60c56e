"""Programs with numpy arrays, compared with eager as exactly as a captured graph promises."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from programs import Program, Recorder, approximate, check


def counted(*shape: int, dtype: str = "float64") -> numpy.ndarray:
    """Returns the numbers from one on."""
    return numpy.arange(1, 1 + math.prod(shape), dtype=dtype).reshape(shape)


def check_arrays(fn: Callable[..., Any] | Program, *args: Any, **settings: Any) -> Recorder:
    """The same as `check`, for numbers as torch computes them: in a graph rounding, the order of sums, the sign of
    zeros and the payload of NaN are torch's, and numpy reports no floating-point error. So numbers are compared with a
    tolerance, NaN equals NaN, zeros of either sign are equal, and such warnings are off."""
    with numpy.errstate(all="ignore"):
        return check(approximate(fn), *args, **settings)
