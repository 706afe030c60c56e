"""Targets of nodes: functions of tensors that do what ``torch._numpy`` does to its arrays."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch._numpy

from dynamo_lite.insight.break_reasons import NumpyCall
from dynamo_lite.variables.core.base import unsupported
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, UNARY

from .scalars import SCALARS

_torch_numpy: Any = torch._numpy
_Array = _torch_numpy.ndarray
ITEM_TYPES = (int, float, bool, complex, *SCALARS)
"""Classes that numpy takes as dtypes."""


@functools.cache
def numpy_dtype(dtype: torch.dtype) -> Any:
    """numpy's dtype for one of torch's."""
    return numpy.dtype(str(dtype).removeprefix("torch."))


def operator_of(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The target of a node: it calls a function of ``torch._numpy`` on tensors."""

    def target(*args: object, **named: object) -> Any:
        return _tensors(function(*_arrays(args), **_arrays(named)))

    target.__name__ = target.__qualname__ = f"numpy_{name}"
    return target


def _arrays(values: object) -> Any:
    if isinstance(values, torch.Tensor):
        return _Array(values)
    if isinstance(values, (list, tuple)):
        return type(values)(map(_arrays, values))
    return {name: _arrays(value) for name, value in values.items()} if isinstance(values, dict) else values


def _tensors(values: object) -> Any:
    if isinstance(values, _Array):
        return values.tensor
    return type(values)(map(_tensors, values)) if isinstance(values, (list, tuple)) else values


# -- functions whose version in torch._numpy differs -------------------------------------------------------------------


def _pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    """``torch._numpy.pad`` makes a tensor of the widths and reads it."""
    if mode != "constant" or not isinstance(constant_values, (int, float)):
        raise TypeError(f"{mode} with {constant_values}")
    widths = numpy.broadcast_to(numpy.asarray(pad_width), (array.ndim, 2))
    flat = [width for pair in reversed(widths.tolist()) for width in pair]
    return _Array(torch.nn.functional.pad(array.tensor, flat, value=constant_values))


def _divide(one: Any, other: object) -> Any:
    """``torch._numpy`` divides integers in torch's default dtype, and numpy in float64."""
    if not any(map(_is_inexact, (one, other))):
        one = one.astype("float64") if isinstance(one, _Array) else float(one)
    return _torch_numpy.divide(one, other)


def _is_inexact(value: object) -> bool:
    if isinstance(value, _Array):
        return value.tensor.is_floating_point() or value.tensor.is_complex()
    return isinstance(value, (float, complex))


def _argsort(
    array: object, axis: object = -1, kind: object = None, order: object = None, *, stable: object = None
) -> Any:
    if order is not None or not (stable or kind in ("stable", "mergesort")):
        raise ValueError('equal items come in another order, except for kind="stable"')
    return _torch_numpy.argsort(array, axis, "stable")


_REPLACED: dict[Any, Callable[..., Any]] = {
    **{numpy.pad: _pad, numpy.divide: _divide, numpy.argsort: _argsort},
    **{operator.truediv: _divide, "argsort": _argsort},
}
"""Functions that are called instead of those of ``torch._numpy``. Keys: numpy's and Python's functions, and names of
methods."""
_DIFFERENCES: dict[Any, str] = {
    **dict.fromkeys((numpy.histogram, numpy.histogram2d, numpy.histogramdd), "other bins"),
    **dict.fromkeys((numpy.gcd, numpy.lcm, numpy.ldexp), "errors or other results for large integers"),
    **dict.fromkeys((numpy.cbrt, numpy.fix, numpy.modf, numpy.choose), "other results for negative numbers"),
    **dict.fromkeys((numpy.sign, numpy.heaviside), "other results for NaN"),
}
"""Functions whose version in ``torch._numpy`` gives other results for some items, and which."""


@functools.cache
def method(name: str) -> Callable[..., Any]:
    return operator_of(name, _REPLACED.get(name, functools.partial(call_method, name)))


@functools.cache
def attribute(name: str) -> Callable[..., Any]:
    return operator_of(name, operator.attrgetter(name))


@functools.cache
def function_of_torch(function: Any) -> Callable[..., Any] | None:
    """torch's version of one of numpy's functions, None if it has none."""
    if function in _DIFFERENCES:
        unsupported(NumpyCall(f"numpy's {function.__name__}", f"torch's version gives {_DIFFERENCES[function]}"))
    name = function.__name__
    if function in _REPLACED:
        return operator_of(name, _REPLACED[function])
    for of_numpy, of_torch, names in _MODULES:
        version = getattr(of_torch, name, None) if names is None or name in names else None
        if getattr(of_numpy, name, None) is function and isinstance(version, types.FunctionType):
            return operator_of(name, version)
    return None


_MODULES: tuple[tuple[Any, Any, frozenset[str] | None], ...] = (
    (numpy, _torch_numpy, None),
    (numpy.fft, _torch_numpy.fft, None),
    (numpy.linalg, _torch_numpy.linalg, frozenset({"norm", "det", "multi_dot"})),
)
"""Modules of numpy and torch, and their functions with one result that never raise because of the data (None: all)."""


def call_method(name: str, array: object, *args: object, **named: object) -> Any:
    return getattr(array, name)(*args, **named)


_PYTHON_OPERATORS: tuple[Any, ...] = (*BINARY.values(), *COMPARE.values(), *UNARY.values(), operator.getitem)
BY_OPERATOR = {each.__name__: operator_of(each.__name__, _REPLACED.get(each, each)) for each in _PYTHON_OPERATORS}
"""Python's operators on arrays, by their names in the module operator."""


def for_torch(values: Any) -> Any:
    """A trial's arguments for torch: arrays as tensors, dtypes by name."""
    if isinstance(values, (numpy.ndarray, *SCALARS)):
        return torch.from_numpy(numpy.array(values))
    if isinstance(values, (list, tuple)):
        return type(values)(map(for_torch, values))
    if isinstance(values, dict):
        return {name: for_torch(value) for name, value in values.items()}
    is_dtype = isinstance(values, numpy.dtype) or any(values is each for each in ITEM_TYPES)
    return numpy.dtype(values).name if is_dtype else values
