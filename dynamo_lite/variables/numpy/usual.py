"""Functions of numpy's for which torch's version gives something else for some items alone: zeros of either sign, that
numpy takes as its vectors come to them, and the least number of a type, that has no opposite. A graph goes on where
there are none."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy
import torch

Says = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _same_zeros(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one != 0) | (other != 0) | (torch.signbit(one) == torch.signbit(other))


def _have_opposites(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (one != torch.iinfo(one.dtype).min) & (other != torch.iinfo(other.dtype).min)


def _multiple_fits(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    bits = 8 * max(one.element_size(), other.element_size())
    low, high = (torch.where(each == torch.iinfo(each.dtype).min, 0, each) for each in (one, other))
    product = low.double().abs() * high.double().abs() / torch.gcd(low, high).clamp(min=1)
    return _have_opposites(one, other) & (product < 2.0 ** (bits - 2))


QUOTIENTS = (operator.floordiv, numpy.floor_divide, numpy.divmod)
_SAYS: dict[Any, Says] = {
    **dict.fromkeys((numpy.fmax, numpy.fmin), _same_zeros),
    numpy.gcd: _have_opposites,
    numpy.lcm: _multiple_fits,
    **dict.fromkeys(QUOTIENTS, _have_opposites),
}


def usual_items(real: Any, args: list[Any]) -> torch.Tensor | None:
    """Of which items a function's result is numpy's; None: nothing is known of it. ``args``: tensors and numbers."""
    says = _SAYS.get(real)
    return None if says is None or len(args) != 2 else _said(says, args)


def _said(says: Says, args: Any) -> torch.Tensor:
    kinds = [each.dtype for each in args if isinstance(each, torch.Tensor)]
    one, other = (torch.as_tensor(each, dtype=functools.reduce(torch.promote_types, kinds)) for each in args)
    return says(one, other)


@functools.cache
def are_usual(real: Any) -> Callable[..., torch.Tensor]:
    """The target of a node that says whether all items are."""
    says = _SAYS[real]

    def numpy_is_usual(*args: Any, before: Any = None) -> torch.Tensor:
        fits = _said(says, args).all()
        return fits if before is None else before & fits

    return numpy_is_usual
