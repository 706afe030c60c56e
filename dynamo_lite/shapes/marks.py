"""Marks on tensors, which torch.compile reads too: sizes that differ from call to call, and such as don't."""

from __future__ import annotations

from typing import Any

import torch

from .facts import DimRange

Dims = int | list[int] | tuple[int, ...]


def mark_dynamic(t: torch.Tensor, dim: Dims, *, min: int | None = None, max: int | None = None) -> None:
    """From the first compile on, the size of this dimension may differ from call to call.

    Args:
        t: an argument of compiled code, before it is called.
        dim: which dimension, or a list or tuple of them; from the end where it is negative.
        min, max: the smallest and the greatest size there will be, in elements; None: any.

    Where the program or its backend leaves it one size only, compiling it raises `exc.ConstraintViolation`. Sizes of 0
    and 1 are compiled for by themselves all the same, as in torch.compile: without ``min`` and ``max`` the others are a
    symbol from the next call on; with one of them that is `exc.ConstraintViolation`, as the range was asked for.

    Raises:
        TypeError: ``t`` is no tensor, or ``dim``, ``min`` or ``max`` no integer.
        IndexError: it has no such dimension.
        ValueError: no size is between ``min`` and ``max``, or only 0 and 1, which are compiled for by themselves.
    """
    _check_tensor(t)
    dims = _dimensions(t, dim)
    for bound in (min, max):
        if bound is not None and not isinstance(bound, int):
            raise TypeError(f"min and max are integers or None, not {type(bound).__name__} ({bound!r})")
    if min is not None and max is not None and min > max:
        raise ValueError(f"no size is at least {min} and at most {max}")
    if max is not None and max < 2:
        raise ValueError(f"a size of at most {max} is compiled for by itself: a range goes beyond 1")
    for at in dims:
        _marks(t, "_dynamo_dynamic_indices").add(at)
        ranges = _marks(t, "_dynamo_dynamic_range")
        ranges.difference_update([each for each in ranges if each.dim == at])
        ranges.add(DimRange(at, min, max))
        _marks(t, "_dynamo_static_indices").discard(at)


def mark_static(t: torch.Tensor, dim: Dims | None = None) -> None:
    """The size of this dimension (a list or tuple: of these; None: of each) is the same in every call of one compile.

    Raises:
        TypeError: ``t`` is no tensor, or ``dim`` no integer.
        IndexError: it has no such dimension.
    """
    _check_tensor(t)
    for at in range(t.dim()) if dim is None else _dimensions(t, dim):
        _marks(t, "_dynamo_static_indices").add(at)
        _marks(t, "_dynamo_dynamic_indices").discard(at)


def _check_tensor(t: Any) -> None:
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"marks are for tensors, not {type(t).__name__}")


def _dimensions(t: torch.Tensor, dim: Dims) -> list[int]:
    """Those dimensions of a tensor, counted from the front."""
    given = dim if isinstance(dim, (list, tuple)) else (dim,)
    for each in given:
        if not isinstance(each, int):
            raise TypeError(f"a dimension is an integer, not {type(each).__name__} ({each!r})")
        if not -t.dim() <= each < t.dim():
            raise IndexError(f"a tensor of shape {tuple(t.shape)} has no dimension {each}")
    return [each % t.dim() for each in given]


def _marks(t: torch.Tensor, name: str) -> set[Any]:
    return t.__dict__.setdefault(name, set())
