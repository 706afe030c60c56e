"""What torch's versions of numpy's functions of single items give for items that are out of the ordinary: zeros of
either sign, infinities, NaN, the least and greatest numbers. A function is taken where it gives for these what numpy
gives, but for last bits."""

from __future__ import annotations

import functools
import itertools
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch

from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, UNARY

from .usual import usual_items
from .warnings import BY_PARTS, is_quiet

_FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -2.5,
    3.0,
    7.0,
    -7.0,
    100.0,
    8.734,
    -0.01012,
    *(numpy.nan, numpy.inf, -numpy.inf),
)
_INTEGERS = (0, 1, 2, 3, 7, 100)
_PARTS = (0.0, -0.0, 1.0, -2.5, numpy.nan, numpy.inf, -numpy.inf)
_BITS = {"e": 4e-3, "f": 1e-5, "d": 1e-12}
"""How far from each other two numbers are whose last bits differ, by numpy's letter for their type."""


@functools.cache
def special(dtype: Any, every: bool) -> Any:
    """The items of a type that functions are tried on. ``every``: all that there are, where they are few."""
    if dtype.kind == "c":
        parts = numpy.array(_PARTS)
        made = numpy.empty((len(parts), len(parts)), dtype)
        made.real, made.imag = parts[:, None], parts
        return made.ravel()
    if dtype.kind == "f":
        limits = numpy.finfo(dtype)
        ends = [limits.smallest_normal, limits.max]
        return numpy.array([*_FLOATS, *ends, *(-each for each in ends)], dtype)
    if dtype.kind == "b":
        return numpy.array([False, True])
    bounds = numpy.iinfo(dtype)
    if every and dtype.itemsize == 1:
        return numpy.arange(bounds.min, bounds.max + 1).astype(dtype)
    found = [*_INTEGERS, bounds.max, bounds.max - 1, bounds.min, bounds.min + 1]
    return numpy.array([*found, *(-each for each in _INTEGERS)] if bounds.min < 0 else found, dtype)


def is_of_items(real: Callable[..., Any]) -> bool:
    """Whether each item of a function's result is made of one item of each argument."""
    if isinstance(real, functools.partial):  # a method
        return real.args[0] in _METHODS
    return isinstance(real, numpy.ufunc) and real.signature is None or real in _FUNCTIONS


_METHODS = frozenset({"astype", "clip", "conj", "round"})
_FUNCTIONS = frozenset({*BINARY.values(), *COMPARE.values(), *UNARY.values()} - {operator.matmul}) | {
    numpy.angle,
    numpy.clip,
    numpy.fix,
    numpy.i0,
    numpy.isclose,
    numpy.nan_to_num,
    numpy.round,
    numpy.sinc,
    numpy.where,
}


def gives_other_items(
    target: Callable[..., Any],
    real: Callable[..., Any],
    for_torch: Callable[[Any], Any],
    args: Sequence[Any],
    named: dict[str, Any],
    unknown: Sequence[Any],
) -> bool | None:
    """Whether a function of torch's and numpy's own differ; None: they do, but not for usual items. ``unknown``: which
    of the arguments are arrays."""
    places = [index for index, arg in enumerate(args) if any(arg is each for each in unknown)]
    known = [(type(arg), repr(arg)) for index, arg in enumerate(args) if index not in places]
    if any(isinstance(arg, (list, tuple)) for arg in args):
        return False
    if any(not _fits(arg, args[place].dtype) for place in places for arg in args):
        return True  # torch takes the last bits of it
    key = (real if not isinstance(real, functools.partial) else real.args, *(args[index].dtype for index in places))
    key = (*key, *((index, numpy.ndim(args[index]) == 0) for index in places), *known, repr(named))
    if key not in _FOUND:
        found = _differ(target, real, for_torch, list(args), named, places, False)
        usual = found and usual_items(real, for_torch(list(args))) is not None
        _FOUND[key] = None if usual and not _differ(target, real, for_torch, list(args), named, places, True) else found
    return _FOUND[key]


def _fits(number: Any, dtype: Any) -> bool:
    """Whether a known integer is one of an array's type."""
    if type(number) is not int or dtype.kind not in "iu":
        return True
    bounds = numpy.iinfo(dtype)
    return bool(bounds.min <= number <= bounds.max)


_FOUND: dict[Any, bool | None] = {}
"""What is known of functions, by types of items and known arguments."""


def _differ(
    target: Callable[..., Any],
    real: Callable[..., Any],
    for_torch: Callable[[Any], Any],
    args: list[Any],
    named: dict[str, Any],
    places: Sequence[int],
    usual: bool,
) -> bool:
    """In both orders: kernels have other code for the ends of rows. What has no dimensions takes another part in
    promotion to torch, and is one item after the other."""
    single = [index for index in places if numpy.ndim(args[index]) == 0]
    many = [index for index in places if index not in single]
    tables = numpy.meshgrid(*(special(args[index].dtype, len(places) < 3) for index in many), indexing="ij")
    for items in itertools.product(*(_some(args[index].dtype) for index in single)):
        for index, item in zip(single, items):
            args[index] = item
        for step in (1, -1) if many else (1,):
            for index, table in zip(many, tables):
                args[index] = table.ravel()[::step].copy()
            with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                expected = real(*args, **named)
            found = target(*for_torch(args), **for_torch(named))
            if isinstance(found, torch.Tensor) and found.is_complex() and not (is_quiet(target) or real in BY_PARTS):
                fine = functools.reduce(numpy.logical_and, [numpy.isfinite(args[index]) for index in places])
                fine = fine & numpy.isfinite(expected)  # a graph goes on with none but these
                expected, found = expected[fine], found[torch.from_numpy(numpy.asarray(fine))]
            if usual:
                fine = numpy.asarray(usual_items(real, for_torch(args)))
                expected, found = numpy.asarray(expected)[fine], found[torch.from_numpy(fine)]
            if not _are_alike(expected, found):
                return True
    return False


@functools.cache
def _some(dtype: Any) -> list[Any]:
    """A few of the items, the first and the last ones."""
    items = special(dtype, False)
    return [*items] if len(items) < 9 else [*items[:4], *items[-5:]]


def _are_alike(expected: Any, found: Any) -> bool:
    if isinstance(expected, (tuple, list)):
        return all(map(_are_alike, expected, found))
    if not isinstance(found, torch.Tensor):
        return True  # what it is is looked at elsewhere
    expected = numpy.asarray(expected)
    items = found.resolve_conj().resolve_neg().numpy()
    if items.dtype != expected.dtype or items.shape != expected.shape:
        return True
    if expected.dtype.kind == "c":
        return _are_alike_floats(expected.real, items.real) and _are_alike_floats(expected.imag, items.imag)
    return _are_alike_floats(expected, items) if expected.dtype.kind == "f" else bool((expected == items).all())


def _are_alike_floats(expected: Any, items: Any) -> bool:
    least = numpy.finfo(expected.dtype).smallest_normal  # smaller ones may be lost
    with numpy.errstate(all="ignore"):
        near = abs(expected - items) <= _BITS[expected.dtype.char] * abs(expected)
        signs = numpy.signbit(expected) == numpy.signbit(items)
        small = (abs(expected) < least) & (abs(items) < least) & (expected != 0)
        alike = (expected == items) & signs | near & signs & numpy.isfinite(expected) | small
    return bool((alike | numpy.isnan(expected) & numpy.isnan(items)).all())
