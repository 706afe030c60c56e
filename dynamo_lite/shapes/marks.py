"""``mark_dynamic`` and ``mark_static``. The marks are attributes of the tensor, which torch.compile reads too."""

from __future__ import annotations

from typing import Any

import torch

from .number_guards import DimRange

Dims = int | list[int] | tuple[int, ...]


def mark_dynamic(t: torch.Tensor, dim: Dims, *, min: int | None = None, max: int | None = None) -> None:
    """Make the size of a dimension symbolic from the first compilation on.

    Args:
        t: an argument of compiled code, marked before the call.
        dim: the dimension, or a list or tuple of dimensions. Negative ones count from the end.
        min, max: the smallest and the greatest size, in elements, both inclusive. None: no bound.

    Compiling raises `exc.ConstraintViolation` if the program or its backend specializes the size. As in torch.compile,
    sizes of 0 and 1 are specialized anyway. Without ``min`` and ``max`` the size is then symbolic from the next call
    on; with one of them that call raises `exc.ConstraintViolation`, as its graph would not be valid for the range.

    Raises:
        TypeError: ``t`` is not a tensor, or ``dim``, ``min`` or ``max`` not an integer.
        IndexError: ``t`` has no such dimension.
        ValueError: the range is empty, or has no sizes but 0 and 1.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> doubled = dl.compile(lambda x: x * 2, backend="eager")
        >>> x = torch.ones(3)
        >>> dl.mark_dynamic(x, 0)
        >>> dl.counters.reset()
        >>> _ = doubled(x), doubled(torch.ones(5))
        >>> dl.counters.graphs
        1
    """
    _check_tensor(t)
    dims = _dimensions(t, dim)
    for bound in (min, max):
        if bound is not None and not _is_integer(bound):
            raise TypeError(f"min and max must be integers or None, not {type(bound).__name__} ({bound!r})")
    if min is not None and max is not None and min > max:
        raise ValueError(f"min is {min} and max is {max}: no size is in that range")
    if max is not None and max < 2:
        raise ValueError(f"max must be at least 2, not {max}: sizes 0 and 1 are always specialized")
    for at in dims:
        _marks(t, "_dynamo_dynamic_indices").add(at)
        ranges = _marks(t, "_dynamo_dynamic_range")
        ranges.difference_update([each for each in ranges if each.dim == at])
        ranges.add(DimRange(at, min, max))
        _marks(t, "_dynamo_static_indices").discard(at)


def mark_static(t: torch.Tensor, dim: Dims | None = None) -> None:
    """Specialize the size of a dimension: a call with another size is compiled again.

    Args:
        t: an argument of compiled code, marked before the call.
        dim: the dimension, or a list or tuple of dimensions. None: all of them.

    Raises:
        TypeError: ``t`` is not a tensor, or ``dim`` not an integer.
        IndexError: ``t`` has no such dimension.
    """
    _check_tensor(t)
    for at in range(t.dim()) if dim is None else _dimensions(t, dim):
        _marks(t, "_dynamo_static_indices").add(at)
        _marks(t, "_dynamo_dynamic_indices").discard(at)


def _check_tensor(t: object) -> None:
    if not isinstance(t, torch.Tensor):
        raise TypeError(f"only tensors can be marked, not {type(t).__name__}")


def _dimensions(t: torch.Tensor, dim: Dims) -> list[int]:
    """The dimensions, counted from the front."""
    given = dim if isinstance(dim, (list, tuple)) else (dim,)
    for each in given:
        if not _is_integer(each):
            raise TypeError(f"a dimension must be an integer, not {type(each).__name__} ({each!r})")
        if not -t.dim() <= each < t.dim():
            raise IndexError(f"a tensor of shape {tuple(t.shape)} has no dimension {each}")
    return [each % t.dim() for each in given]


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _marks(t: torch.Tensor, name: str) -> set[Any]:
    return t.__dict__.setdefault(name, set())
