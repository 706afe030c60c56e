"""The targets of nodes: functions of tensors that do what ``torch._numpy`` does to its arrays of them."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
import torch._numpy

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.variables.core.base import unsupported
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, UNARY

from .scalars import SCALARS

_Array = torch._numpy.ndarray
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
        return _Array(values)
    if isinstance(values, (list, tuple)):
        return type(values)(map(_arrays, values))
    return {name: _arrays(value) for name, value in values.items()} if isinstance(values, dict) else values


def _tensors(values: Any) -> Any:
    if isinstance(values, _Array):
        return values.tensor
    return type(values)(map(_tensors, values)) if isinstance(values, (list, tuple)) else values


# -- functions whose version in torch._numpy differs -------------------------------------------------------------------


def _pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    """``torch._numpy`` makes a tensor of the widths and reads it."""
    if mode != "constant" or not isinstance(constant_values, (int, float)):
        raise TypeError(f"{mode} with {constant_values}")
    widths = numpy.broadcast_to(numpy.asarray(pad_width), (array.ndim, 2))
    flat = [width for pair in reversed(widths.tolist()) for width in pair]
    return _Array(torch.nn.functional.pad(array.tensor, flat, value=constant_values))


def _divide(one: Any, other: Any) -> Any:
    """``torch._numpy`` divides integers in torch's default type, and numpy in double precision."""
    if not any(map(_is_inexact, (one, other))):
        one = one.astype("float64") if isinstance(one, _Array) else float(one)
    return torch._numpy.divide(one, other)


def _is_inexact(value: Any) -> bool:
    if isinstance(value, _Array):
        return value.tensor.is_floating_point() or value.tensor.is_complex()
    return isinstance(value, (float, complex))


def _argsort(array: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    if order is not None or not (stable or kind in ("stable", "mergesort")):
        raise ValueError('equal items come in another order, but for kind="stable"')
    return torch._numpy.argsort(array, axis, "stable")


_REPLACED: dict[Any, Callable[..., Any]] = {
    **{numpy.pad: _pad, numpy.divide: _divide, numpy.argsort: _argsort},
    **{operator.truediv: _divide, "argsort": _argsort},
}
"""By numpy's and Python's functions, and the names of methods."""
_REFUSED: dict[Any, str] = {
    **dict.fromkeys((numpy.histogram, numpy.histogram2d, numpy.histogramdd), "has bins that begin elsewhere"),
    **dict.fromkeys((numpy.gcd, numpy.lcm, numpy.ldexp), "fails on, or differs for, large integers"),
    **dict.fromkeys((numpy.cbrt, numpy.fix, numpy.modf, numpy.choose), "differs for negative numbers"),
    **dict.fromkeys((numpy.sign, numpy.heaviside), "differs for NaN"),
}
"""Functions whose version in ``torch._numpy`` gives something else for some items, and how."""


@functools.cache
def method(name: str) -> Callable[..., Any]:
    return operator_of(name, _REPLACED.get(name, functools.partial(call_method, name)))


@functools.cache
def attribute(name: str) -> Callable[..., Any]:
    return operator_of(name, functools.partial(read, name))


@functools.cache
def function_of_torch(function: Any) -> Callable[..., Any] | None:
    """torch's version of one of numpy's functions; None: there is none."""
    if function in _REFUSED:
        unsupported(UnsupportedOperation(f"numpy.{function.__name__}()", f"arrays, as torch's {_REFUSED[function]},"))
    name = function.__name__
    if function in _REPLACED:
        return operator_of(name, _REPLACED[function])
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
    each.__name__: operator_of(each.__name__, _REPLACED.get(each, each))
    for each in (*BINARY.values(), *COMPARE.values(), *UNARY.values(), operator.getitem)
}
"""Python's operators over arrays, by their names in the module operator."""


STACK = operator_of("stack", torch._numpy.stack)


def same_memory(one: torch.Tensor, other: Any) -> bool:
    return isinstance(other, torch.Tensor) and one.untyped_storage()._cdata == other.untyped_storage()._cdata


SETITEM = torch.fx.node.has_side_effect(operator_of("setitem", operator.setitem))


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
