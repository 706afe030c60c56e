"""numpy: the targets of nodes, which do to tensors what a function does to torch's arrays of them."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
import torch._numpy

from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, UNARY

from .replaced import OF_ARRAYS, OF_NUMPY, OF_PYTHON
from .scalars import SCALARS

KINDS = (int, float, bool, complex, *SCALARS)
"""Types that name those of items."""


@functools.cache
def numpy_dtype(dtype: torch.dtype) -> Any:
    """numpy's name for a dtype of torch's."""
    return numpy.dtype(str(dtype).removeprefix("torch."))


def operator_of(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that does what ``function`` does to torch's arrays: the target of a node."""

    def target(*args: Any, **named: Any) -> Any:
        return _tensors(function(*_arrays(args), **_arrays(named)))

    target.__name__ = target.__qualname__ = f"numpy_{name}"
    return target


def _arrays(values: Any) -> Any:
    if isinstance(values, torch.Tensor):
        return torch._numpy.ndarray(values)
    if isinstance(values, (list, tuple)):
        return type(values)(map(_arrays, values))
    return {name: _arrays(value) for name, value in values.items()} if isinstance(values, dict) else values


def _tensors(values: Any) -> Any:
    if isinstance(values, torch._numpy.ndarray):
        return values.tensor
    return type(values)(map(_tensors, values)) if isinstance(values, (list, tuple)) else values


@functools.cache
def method(name: str) -> Callable[..., Any]:
    return operator_of(name, OF_ARRAYS.get(name, functools.partial(call_method, name)))


@functools.cache
def attribute(name: str) -> Callable[..., Any]:
    return operator_of(name, functools.partial(read, name))


@functools.cache
def function_of_torch(function: Any) -> Callable[..., Any] | None:
    """torch's version of one of numpy's functions."""
    name = function.__name__
    if function in OF_NUMPY:
        return operator_of(name, OF_NUMPY[function])
    for theirs, ours, names in _PLACES:
        found = getattr(ours, name, None) if names is None or name in names else None
        if getattr(theirs, name, None) is function and isinstance(found, types.FunctionType):
            return operator_of(name, found)
    return None


_PLACES: tuple[tuple[Any, Any, frozenset[str] | None], ...] = (
    (numpy, torch._numpy, None),
    (numpy.fft, torch._numpy.fft, None),
    (numpy.linalg, torch._numpy.linalg, frozenset({"norm", "det", "multi_dot"})),
)
"""Modules of numpy's and torch's, and the functions that have one result and raise nothing on the data (None: all)."""


def call_method(name: str, array: Any, *args: Any, **named: Any) -> Any:
    return getattr(array, name)(*args, **named)


def read(name: str, array: Any) -> Any:
    return getattr(array, name)


BY_OPERATOR = {
    each.__name__: operator_of(each.__name__, OF_PYTHON.get(each, each))
    for each in (*BINARY.values(), *COMPARE.values(), *UNARY.values(), operator.getitem)
}
"""Python's operators over arrays, by their names in the module operator."""


STACK = operator_of("stack", torch._numpy.stack)


@functools.cache
def of_its_own(target: Callable[..., Any]) -> Callable[..., Any]:
    """One whose result is a scalar, which what is written into the array later does not change."""

    def copying(*args: Any, **named: Any) -> Any:
        found = target(*args, **named)
        shares = isinstance(found, torch.Tensor) and any(same_memory(found, each) for each in args)
        return found.clone() if shares else found

    copying.__name__ = copying.__qualname__ = target.__name__
    return copying


def same_memory(one: torch.Tensor, other: Any) -> bool:
    return isinstance(other, torch.Tensor) and one.untyped_storage()._cdata == other.untyped_storage()._cdata


SETITEM = torch.fx.node.has_side_effect(operator_of("setitem", operator.setitem))


def _set_flipped(memory: torch.Tensor, key: Any, value: Any, axes: tuple[int, ...]) -> None:
    """Write into what goes the other way along these axes."""
    items = torch.flip(memory, axes)
    SETITEM(items, key, value)
    memory.copy_(torch.flip(items, axes))


SET_FLIPPED = torch.fx.node.has_side_effect(_set_flipped)


def laid_out(tensor: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """A copy whose memory has these axes in this order."""
    back = sorted(range(len(axes)), key=axes.__getitem__)
    return tensor.permute(*axes).contiguous().permute(back)


def for_torch(values: Any) -> Any:
    """Arguments of a trial as tensors, and types by name."""
    if isinstance(values, (numpy.ndarray, *SCALARS)):
        return torch.from_numpy(numpy.array(values))
    if isinstance(values, (list, tuple)):
        return type(values)(map(for_torch, values))
    if isinstance(values, dict):
        return {name: for_torch(value) for name, value in values.items()}
    is_kind = isinstance(values, numpy.dtype) or any(values is each for each in KINDS)
    return numpy.dtype(values).name if is_kind else values
