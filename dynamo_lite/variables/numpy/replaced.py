"""Functions of arrays for which ``torch._numpy`` has another version than numpy: of its arrays, or numbers, to them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch._numpy

_Array = torch._numpy.ndarray


def _tensor(value: Any) -> Any:
    return value.tensor if isinstance(value, _Array) else value


def _is_inexact(value: Any) -> bool:
    if isinstance(value, _Array):
        return value.tensor.is_floating_point() or value.tensor.is_complex()
    return isinstance(value, (float, complex))


def _is_complex(value: Any) -> bool:
    return value.tensor.is_complex() if isinstance(value, _Array) else isinstance(value, complex)


def _kind(one: Any, other: Any) -> torch.dtype:
    """The type of the items that an operator makes of these: Python's numbers take any but another category."""
    if isinstance(one, _Array) and isinstance(other, _Array):
        return torch._numpy.result_type(one, other).torch_dtype  # type: ignore[no-any-return]
    array, number = (one, other) if isinstance(one, _Array) else (other, one)
    kind: torch.dtype = array.tensor.dtype
    return torch.float64 if isinstance(number, float) and not kind.is_floating_point else kind


def pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    """Of known widths, which torch's own makes a tensor of."""
    if mode != "constant" or not isinstance(constant_values, (int, float)):
        raise TypeError(f"{mode} with {constant_values}")
    widths = numpy.broadcast_to(numpy.asarray(pad_width), (array.ndim, 2))
    flat = [width for pair in reversed(widths.tolist()) for width in pair]
    return _Array(torch.nn.functional.pad(array.tensor, flat, value=constant_values))


def divide(one: Any, other: Any) -> Any:
    """Integers in double precision, where torch's own takes the default one."""
    if not any(_is_inexact(each) for each in (one, other)):
        one = one.astype("float64") if isinstance(one, _Array) else float(one)
    return torch._numpy.divide(one, other)


def remainder(one: Any, other: Any) -> Any:
    """A zero has the divisor's sign."""
    found = _divided(torch.remainder, one, other)
    if found is None:
        return torch._numpy.remainder(one, other)
    rest, divisor = found
    return _Array(torch.where(rest == 0, torch.copysign(torch.zeros_like(rest), divisor), rest))


def fmod(one: Any, other: Any) -> Any:
    found = _divided(torch.fmod, one, other)
    return torch._numpy.fmod(one, other) if found is None else _Array(found[0])


def _divided(function: Callable[..., Any], one: Any, other: Any) -> tuple[Any, Any] | None:
    """What is left of a division, and the divisor; None of integers. Where the quotient is out of range torch has NaN:
    what is left of a division by a multiple of the divisor leaves the same."""
    kind = _kind(one, other)
    if not kind.is_floating_point:
        return None
    items, divisor = (torch.as_tensor(_tensor(each), dtype=kind) for each in (one, other))
    if not isinstance(other, (int, float)) or abs(other) < 1:
        multiple = torch.where(divisor.abs() < 1, divisor * _MULTIPLES[kind], divisor)
        items = torch.where(divisor.isinf(), items, torch.fmod(items, multiple))
    return function(items, divisor), divisor


_MULTIPLES = {torch.float16: 2.0**15, torch.float32: 2.0**127, torch.float64: 2.0**1023}


def division(one: Any, other: Any) -> Any:
    return torch._numpy.floor_divide(one, other), remainder(one, other)


def sign(array: Any) -> Any:
    """Of NaN it is NaN."""
    items = array.tensor
    return _Array(torch.where(items != items, items, torch.sign(items)) if items.is_floating_point() else items.sign())


def cube_root(array: Any) -> Any:
    items = array.tensor if array.tensor.is_floating_point() else array.tensor.double()
    return _Array(torch.copysign(items.abs() ** (1 / 3), items))


def _greatest(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of a zero and another one of the other sign, the one that numpy takes; torch takes either."""

    def call(one: Any, other: Any) -> Any:
        found = getattr(torch._numpy, function.__name__)(one, other)
        kind = found.tensor.dtype
        if not kind.is_floating_point:
            return found
        left, right = (torch.as_tensor(_tensor(each), dtype=kind) for each in (one, other))
        tied = right if _takes_second(function, str(kind).removeprefix("torch.")) else left
        return _Array(torch.where(left == right, tied, found.tensor))

    return call


@functools.cache
def _takes_second(function: Callable[..., Any], dtype: str) -> bool:
    return bool(numpy.signbit(function(numpy.zeros(1, dtype), -numpy.zeros(1, dtype)))[0])


def _of_opposites(function: Callable[..., Any]) -> Callable[..., Any]:
    """Without the least number, of which torch's kernels may divide by -1."""

    def call(one: Any, other: Any) -> Any:
        kind = _kind(one, other)
        items = [torch.as_tensor(_tensor(each), dtype=kind) for each in (one, other)]
        if kind.is_signed:
            items = [torch.where(each == torch.iinfo(kind).min, 0, each) for each in items]
        return _Array(function(*items))

    return call


def _by_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    """Sums and differences, for which torch multiplies one of two complex numbers by 1: infinities become NaN."""

    def call(*values: Any, **named: Any) -> Any:
        if named or not any(map(_is_complex, values)):
            return function(*values, **named)
        real = function(*[each.real if _is_complex(each) else each for each in values])
        imag = function(*[each.imag if _is_complex(each) else 0.0 for each in values])
        return _Array(torch.complex(*torch.broadcast_tensors(real.tensor, imag.tensor.to(real.tensor.dtype))))

    return call


def power(base: Any, exponent: Any) -> Any:
    """The operator: numpy takes a root for the power of one half, and squares."""
    if type(exponent) in (int, float) and exponent == 2 and _is_complex(base):
        return torch._numpy.square(base)
    is_root = type(exponent) is float and exponent == 0.5 and _is_inexact(base) and not _is_complex(base)
    return torch._numpy.sqrt(base) if is_root else base**exponent


def towards_zero(array: Any) -> Any:
    """Torch's own rounds."""
    items = array.tensor
    return _Array(torch.trunc(items) if items.is_floating_point() else items)


def angle(array: Any, deg: bool = False) -> Any:
    """That of zero has the zero's sign."""
    items = array.tensor
    if not items.is_floating_point():
        return torch._numpy.angle(array, deg)
    found = torch.atan2(torch.zeros_like(items), items)
    return _Array(found * (180 / math.pi) if deg else found)


def order(array: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Equal items are in the order they were in only if numpy is asked for it."""
    if order is not None or not (stable or kind in ("stable", "mergesort")):
        raise ValueError("an order of equal items that is numpy's own")
    return torch._numpy.argsort(array, axis, "stable")


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """By numpy's steps; torch's own begins at both ends."""
    if retstep or axis or dtype not in (None, "float64", "float32"):
        raise ValueError("more than numbers between two")
    kinds = [each.tensor.dtype for each in (start, stop) if isinstance(each, _Array)]
    kind = functools.reduce(torch.promote_types, kinds) if any(map(_is_inexact, (start, stop))) and kinds else _DOUBLE
    first, last = (torch.as_tensor(_tensor(each), dtype=kind) for each in (start, stop))
    delta, count = last - first, num - 1 if endpoint else num
    items = torch.arange(num, dtype=kind)
    if count > 0:
        step = delta / count
        items = torch.where(step == 0, items / count * delta, items * step)
    items = items + first
    items = torch.cat([items[:-1], last.reshape(1)]) if endpoint and num > 1 else items
    return _Array(items if dtype is None else items.to(getattr(torch, dtype)))


_DOUBLE = torch.float64


def arange(*ends: Any, dtype: Any = None) -> Any:
    """Of floats numpy adds multiples of the difference between the first two."""
    numbers = [(0, *ends, 1), (*ends, 1), ends][len(ends) - 1] if 0 < len(ends) < 4 else ends
    is_float = dtype is None and any(type(each) is float for each in numbers)
    if not is_float or any(type(each) not in (int, float) for each in numbers) or not numbers[2]:
        return torch._numpy.arange(*ends, dtype=dtype)
    start, stop, step = numbers
    count = max(0, math.ceil((stop - start) / step))
    items = torch.arange(count, dtype=_DOUBLE) * ((start + step) - start) + start
    second = torch.full((min(1, max(0, count - 1)),), start + step, dtype=_DOUBLE)
    return _Array(torch.cat([items[:1], second, items[2:]]))


def _not_taken(name: str, why: str) -> Callable[..., Any]:
    def refuse(*args: Any, **named: Any) -> Any:
        raise ValueError(f"{name}, {why}")

    return refuse


_HISTOGRAMS = (numpy.histogram, numpy.histogram2d, numpy.histogramdd)
OF_NUMPY: dict[Any, Callable[..., Any]] = {
    numpy.pad: pad,
    numpy.divide: divide,
    numpy.remainder: remainder,
    numpy.divmod: division,
    numpy.fmod: fmod,
    numpy.sign: sign,
    numpy.linspace: linspace,
    numpy.arange: arange,
    numpy.cbrt: cube_root,
    **{each: _greatest(each) for each in (numpy.maximum, numpy.minimum)},
    numpy.fix: towards_zero,
    numpy.angle: angle,
    numpy.argsort: order,
    numpy.gcd: _of_opposites(torch.gcd),
    numpy.lcm: _of_opposites(torch.lcm),
    **{each: _not_taken(each.__name__, "whose bins begin elsewhere by a last bit") for each in _HISTOGRAMS},
    numpy.add: _by_parts(torch._numpy.add),
    numpy.subtract: _by_parts(torch._numpy.subtract),
    numpy.negative: _by_parts(torch._numpy.negative),
}
"""By numpy's functions."""
OF_ARRAYS: dict[str, Callable[..., Any]] = {"argsort": order}
"""By the names of methods."""
OF_PYTHON: dict[Any, Callable[..., Any]] = {
    operator.truediv: divide,
    operator.mod: remainder,
    operator.pow: power,
    **{each: _by_parts(each) for each in (operator.add, operator.sub, operator.neg)},
}
"""By Python's operators."""
