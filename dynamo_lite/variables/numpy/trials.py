"""numpy: trials of its functions and of torch's, on arrays of ones of the shapes and types that are known."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

import numpy
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from dynamo_lite.insight.break_reasons import OperatorFailed, UnsupportedOperation
from dynamo_lite.records.code_origin import FOLDED_ERRORS
from dynamo_lite.runtime.interrupts import let_through
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.python.containers.sequence import ListVariable, TupleVariable
from dynamo_lite.variables.python.numbers.symbolic import ShapeNumber

from .arrays import ArrayVariable
from .flips import backwards, reversal
from .indices import Picked, numpy_set_at, spread
from .scalars import SCALARS
from .targets import SETITEM, for_torch, numpy_dtype
from .values import gives_other_items, is_of_items

_LARGEST = 1 << 24  # elements of an array that a trial is made on


def try_call(
    tx: Any, target: Any, real: Callable[..., Any], args: Args, kwargs: Kwargs, factor: int
) -> tuple[Any, Tried]:
    """What numpy makes of arrays of ones where the data isn't known. ``factor``: as in `Symbols.at`."""
    tried, trial_args, trial_named = trial_of(tx, args, kwargs, factor)
    try:
        with warnings.catch_warnings(record=True) as told, numpy.errstate(all="ignore"):
            warnings.simplefilter("always")
            found = real(*trial_args, **trial_named)
            if not _is_writeable(found):  # a view of what is given, or one of numpy's that nobody is to write to
                tried.allow_writes()
                found = real(*trial_args, **trial_named)
                if not _is_writeable(found):
                    in_another_form("an array that can be written to")
            tried.check_kernel(target, trial_args, trial_named, found)
    except FOLDED_ERRORS as error:
        let_through(error)
        unsupported(OperatorFailed(getattr(target, "__name__", "numpy"), f"{type(error).__name__}: {error}"))
    if told:
        unsupported(UnsupportedOperation("a numpy function", f"arrays, of which it warns: {told[0].message}"))
    if not tried.may_fail(target, args):
        tried.check_values(target, real, trial_args, trial_named)
    return found, tried


def trial_of(tx: Any, args: Args, kwargs: Kwargs, factor: int) -> tuple[Tried, list[Any], dict[str, Any]]:
    """Arguments that arrays of ones, which can't be written to, are in."""
    tried = Tried(functools.partial(tx.graph.symbols.at, factor=factor), [], [])

    def trial(variable: VariableTracker) -> Any:
        if isinstance(variable, ShapeNumber) and variable.python_type() is int and not variable.hangs_on_data:
            return tried.size(variable.number)
        if not isinstance(variable, ArrayVariable):
            return variable.python_value(tx)
        tried.arrays.append((variable, _ones_like(variable, tried.size)))
        return tried.arrays[-1][1]

    trial_args = [arg.realize().made_real(trial) for arg in args]
    trial_named = {name: value.realize().made_real(trial) for name, value in kwargs.items()}
    return tried, trial_args, trial_named


class Tried(NamedTuple):
    """A trial: what numbers of symbols are in it, and arrays with what stood for each."""

    size: Callable[[Any], int]
    arrays: list[tuple[ArrayVariable, Any]]
    asks: list[bool]
    """Has an item where a function is taken of its usual items alone."""

    def is_view_of_flipped(self, found: Any) -> bool:
        flipped = [trial for variable, trial in self.arrays if variable.flips]
        return isinstance(found, numpy.ndarray) and any(numpy.shares_memory(found, trial) for trial in flipped)

    def allow_writes(self) -> None:
        for _, trial in self.arrays:
            if isinstance(trial, numpy.ndarray):
                trial.flags.writeable = True

    def sizes(self, numbers: Iterable[Any]) -> tuple[int, ...]:
        return tuple(map(self.size, numbers))

    def may_fail(self, target: Any, args: Args) -> bool:
        """On integers: where torch divides by zero numpy gives something, and it raises what torch doesn't."""
        if target.__name__ not in _OF_INTEGERS or any(trial.dtype.kind not in "iub" for _, trial in self.arrays):
            return False
        known = args[1].as_constant() if len(args) > 1 and args[1].is_constant() else 0
        return bool(known == 0)

    def check_kernel(self, target: Any, args: list[Any], named: dict[str, Any], expected: Any) -> None:
        """Torch has no kernels for some types of items, which fakes don't tell. Of known values the items are known."""
        numbers = [(type(each), repr(each)) for each in (*args, *named.values()) if isinstance(each, _NUMBERS)]
        key = target.__name__, *(trial.dtype for _, trial in self.arrays), *numbers
        if key in _COMPUTED and self.arrays:
            return
        with unset_fake_temporarily(), torch._C.DisableTorchFunction():
            found = target(*for_torch(args), **for_torch(named))
            if not self.arrays and isinstance(expected, numpy.ndarray) and isinstance(found, torch.Tensor):
                if not numpy.array_equal(found.numpy(), expected, equal_nan=expected.dtype.kind in "fc"):
                    raise ValueError("it gives other items")
        _COMPUTED.add(key)

    def check_values(self, target: Any, real: Any, args: list[Any], named: dict[str, Any]) -> None:
        """What torch's version makes of items that are out of the ordinary may be something else."""
        unknown = [trial for _, trial in self.arrays]
        if not unknown or not is_of_items(real):
            return
        try:
            with unset_fake_temporarily(), torch._C.DisableTorchFunction():
                other = gives_other_items(target, real, for_torch, args, named, unknown)
        except FOLDED_ERRORS as error:  # on some numbers
            let_through(error)
            other = True
        if other is None:
            self.asks.append(True)
        elif other:
            in_another_form("other items of some numbers")


_NUMBERS = (int, float, complex, *SCALARS)
_COMPUTED: set[tuple[Any, ...]] = set()
"""Functions of torch's, by name, and types of items and numbers that they were computed of."""
_PRODUCTS = frozenset(
    f"numpy_{name}" for name in "matmul dot tensordot einsum inner vdot multi_dot convolve correlate".split()
)
_OF_INTEGERS = frozenset(
    "numpy_" + name for name in ("floor_divide", "floordiv", "mod", "remainder", "fmod", "divmod", "power", "pow")
)


def _ones_like(variable: ArrayVariable, size: Callable[[Any], int]) -> Any:
    fake = variable.fake
    dtype = numpy_dtype(fake.dtype)
    if variable.scalar:
        return dtype.type(1)
    shape, steps = (tuple(map(size, numbers)) for numbers in (fake.shape, fake.stride()))
    if math.prod(shape) > _LARGEST:
        unsupported(UnsupportedOperation("a numpy function", "an array as large as this"))
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, steps)) if math.prod(shape) else 0
    strides = tuple(stride * dtype.itemsize for stride in steps)
    ones = numpy.ndarray(shape, dtype, numpy.ones(reach, dtype), 0, strides if reach else None)
    if variable.flips:
        ones = ones[reversal(variable.flips)]
    ones.flags.writeable = False  # what writes into its arguments is numpy's
    return ones


def _is_writeable(found: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return all(map(_is_writeable, found))
    return not isinstance(found, numpy.ndarray) or found.flags.writeable


def adds_zero(tx: Any, target: Any, real: Any, args: Args, kwargs: Kwargs) -> bool:
    """Whether a product of two numbers alone, which is -0.0 to torch's version, is added to 0.0 by numpy."""
    if target.__name__ not in _PRODUCTS:
        return False
    tried, trial_args, trial_named = trial_of(tx, args, kwargs, 1)
    floats = [trial for _, trial in tried.arrays if isinstance(trial, numpy.ndarray) and trial.dtype.kind == "f"]
    if len(floats) < 2:
        return False
    tried.allow_writes()
    adds = False
    for each in floats:
        each[...] = -0.0
        expected = numpy.signbit(real(*trial_args, **trial_named))
        with unset_fake_temporarily(), torch._C.DisableTorchFunction():
            found = torch.signbit(target(*for_torch(trial_args), **for_torch(trial_named))).numpy()
        each[...] = 1.0
        if not numpy.array_equal(expected, found):
            adds = True
            if expected.any():
                in_another_form("a zero of the other sign")
    return adds


def try_write_at(tx: Any, args: Args, picked: Picked, factor: int) -> None:
    """On items that are all different."""
    tried, (trial, value), _ = trial_of(tx, [args[0], args[2]], {}, factor)
    parts: Args = [args[1], TupleVariable(picked.view), ListVariable(picked.indices)]
    key, view, indices = spread(trial_of(tx, parts, {}, factor)[1], max(1, min(trial.shape)))
    tried.allow_writes()
    trial[...] = spread(trial, trial.size)
    try:
        other = trial.copy()
        part = other[view]
        axes = backwards(part)
        with warnings.catch_warnings(), numpy.errstate(all="ignore"), unset_fake_temporarily():
            warnings.simplefilter("error")
            trial[key] = value = spread(value, trial.size)
            with torch._C.DisableTorchFunction():
                tensor = torch.from_numpy(part[reversal(axes)])
                numpy_set_at(tensor, axes, picked.axes, for_torch(indices), for_torch(value))
    except (*FOLDED_ERRORS, Warning) as error:
        let_through(error)
        unsupported(OperatorFailed("setitem", f"{type(error).__name__}: {error}"))
    if not numpy.array_equal(other, trial):
        in_another_form("other items")


def try_write(tx: Any, args: Args, factor: int) -> None:
    tried, (trial, key, value), _ = trial_of(tx, args, {}, factor)
    with unset_fake_temporarily(), torch._C.DisableTorchFunction():
        given = for_torch([trial, key, value])
    tried.allow_writes()
    try:
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("error")
            trial[key] = value
            with unset_fake_temporarily(), torch._C.DisableTorchFunction():
                SETITEM(*given)
                same = numpy.array_equal(given[0].numpy(), trial, equal_nan=trial.dtype.kind in "fc")
    except (*FOLDED_ERRORS, Warning) as error:
        let_through(error)
        unsupported(OperatorFailed("setitem", f"{type(error).__name__}: {error}"))
    if not same:
        in_another_form("other items")


def in_another_form(how: str) -> NoReturn:
    unsupported(UnsupportedOperation("a numpy function", f"arrays, for which torch's version gives {how},"))
