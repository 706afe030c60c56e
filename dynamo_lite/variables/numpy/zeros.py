"""The sign of a zero, where numpy's answer hangs on the order in which its kernels take the items: of zeros of either
sign the greatest, the least or the first one is any. A graph goes on where there is none, or where no item is -0.0."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .indices import bits

_PICKING = frozenset(
    f"numpy_{name}" for name in ("max", "min", "amax", "amin", "ptp", "sort", "median", "quantile", "percentile")
)
"""Functions whose results are items, or lie between items, that others of them are equal to."""
_CUMULATIVE = frozenset({"numpy_cumsum"})
"""Those that begin with the first item, and torch's version with 0.0."""


def zeros_of(target: Any, axis: int | None) -> Callable[..., torch.Tensor] | None:
    """The target of a node that says of a function's result and its items whether numpy has these zeros; None: it has.
    ``axis``: the one that the function goes along."""
    if target.__name__ in _PICKING:
        return numpy_has_one_zero
    return _first_of(axis) if target.__name__ in _CUMULATIVE else None


def numpy_has_one_zero(found: torch.Tensor, items: torch.Tensor, before: Any = None) -> torch.Tensor:
    fits = (found != 0).all() | (bits(items).amin() != torch.iinfo(bits(items).dtype).min)
    return fits if before is None else before & fits


@functools.cache
def _first_of(axis: int | None) -> Callable[..., torch.Tensor]:
    def numpy_begins_with_zero(found: torch.Tensor, items: torch.Tensor, before: Any = None) -> torch.Tensor:
        first = items.reshape(-1)[:1] if axis is None else items.narrow(axis, 0, 1)
        fits = ((first != 0) | ~torch.signbit(first)).all()
        return fits if before is None else before & fits

    return numpy_begins_with_zero
