"""Trials of numpy's functions and of torch's, on arrays of ones that have the shapes, strides and types that are known.

What numpy returns of them says what torch's version must return: the type, shape and strides, and whether it is a view.
Torch's version is computed as well, as fake tensors don't show that a kernel is missing.
"""

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
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.interrupts import reraise_if_from_signal
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .scalars import SCALARS
from .targets import SETITEM, for_torch, numpy_dtype

_LARGEST = 1 << 24  # elements of an array that a trial is made on


class ArrayVariable(VariableTracker):
    """An array whose memory is that of a tensor of the graph. ``scalar``: it is a numpy scalar."""

    __slots__ = ("memory", "scalar")

    def __init__(self, memory: TensorVariable, scalar: bool = False, source: Source | None = None) -> None:
        self.source = source
        self.memory = memory
        self.scalar = scalar

    @property
    def fake(self) -> torch.Tensor:
        """The metadata of its memory."""
        return self.memory.fake

    def python_type(self) -> type:
        return numpy_dtype(self.fake.dtype).type if self.scalar else numpy.ndarray

    def describe(self) -> str:
        return f"a numpy array of shape {tuple(self.fake.shape)}"

    def as_index(self, tx: Translator) -> VariableTracker:
        return self if self.scalar else self.memory


class Trial(NamedTuple):
    """The arguments of a trial."""

    name: str
    size: Callable[[Any], int]
    """What a symbolic int is in it."""
    arrays: list[tuple[ArrayVariable, Any]]
    """Each array with the ones that stood for it."""

    def allow_writes(self) -> None:
        for _, ones in self.arrays:
            if isinstance(ones, numpy.ndarray):
                ones.flags.writeable = True

    def sizes(self, numbers: Iterable[Any]) -> tuple[int, ...]:
        return tuple(map(self.size, numbers))

    def differs(self, how: str) -> NoReturn:
        unsupported(UnsupportedOperation(f"numpy's {self.name}", f"arrays, for which torch's version gives {how},"))


def try_call(
    tx: Translator, target: Callable[..., Any], real: Callable[..., Any], args: Args, kwargs: Kwargs, factor: int
) -> tuple[Any, Trial]:
    """What numpy returns where ones stand for the arrays. ``factor``: as in `Symbols.at`."""
    trial, values, named = _trial_of(tx, target, args, kwargs, factor)
    _check_numbers(trial, real, [*values, *named.values()])
    try:
        with warnings.catch_warnings(record=True) as told, numpy.errstate(all="ignore"):
            warnings.simplefilter("always")
            found = real(*values, **named)
            if not _is_writeable(found):  # a view of an argument, or one that numpy makes read-only
                trial.allow_writes()
                found = real(*values, **named)
                if not _is_writeable(found):
                    trial.differs("an array that can be written to")
            _check_kernel(trial, target, values, named, found)
    except FOLDED_ERRORS as error:
        reraise_if_from_signal(error)
        unsupported(OperatorFailed(trial.name, f"{type(error).__name__}: {error}"))
    if told:
        unsupported(UnsupportedOperation(f"numpy's {trial.name}", f"arrays, of which it warns: {told[0].message}"))
    return found, trial


def try_write(tx: Translator, args: Args, factor: int) -> None:
    """``array[key] = value`` by numpy and by torch, which are to write the same items."""
    trial, (array, key, value), _ = _trial_of(tx, SETITEM, args, {}, factor)
    _check_numbers(trial, None, [value])
    trial.allow_writes()
    array[...] = _spread(array, array.size)
    key = _spread(key, max(1, min(array.shape, default=1)))
    try:
        with unset_fake_temporarily(), torch._C.DisableTorchFunction():
            tensor, *given = for_torch([array, key, value])
            with warnings.catch_warnings(), numpy.errstate(all="ignore"):
                warnings.simplefilter("error")
                array[key] = value
                SETITEM(tensor, *given)
            same = numpy.array_equal(tensor.numpy(), array, equal_nan=array.dtype.kind in "fc")
    except (*FOLDED_ERRORS, Warning) as error:
        reraise_if_from_signal(error)
        unsupported(OperatorFailed(trial.name, f"{type(error).__name__}: {error}"))
    if not same:
        trial.differs("other items")


def _trial_of(
    tx: Translator, target: Callable[..., Any], args: Args, kwargs: Kwargs, factor: int
) -> tuple[Trial, list[Any], dict[str, Any]]:
    """The arguments. Arrays are read-only, so that a function that writes into them fails."""
    name = target.__name__.removeprefix("numpy_")
    trial = Trial(name, functools.partial(tx.graph.symbols.at, factor=factor), [])

    def real(variable: VariableTracker) -> Any:
        if isinstance(variable, SymNodeVariable) and variable.python_type() is int and not variable.is_data_dependent:
            return trial.size(variable.number)
        if not isinstance(variable, ArrayVariable):
            return variable.python_value(tx)
        trial.arrays.append((variable, _ones_like(variable, trial.size)))
        return trial.arrays[-1][1]

    values = [arg.realize().real_argument(real) for arg in args]
    return trial, values, {name: value.realize().real_argument(real) for name, value in kwargs.items()}


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
    ones.flags.writeable = False
    return ones


def _spread(values: Any, count: int) -> Any:
    """The same with items that differ, up to so many of them. Masks and numbers stay."""
    if isinstance(values, numpy.ndarray) and values.dtype.kind != "b":
        return (numpy.arange(values.size) % max(1, count)).astype(values.dtype).reshape(values.shape)
    if isinstance(values, (list, tuple)):
        return type(values)(_spread(each, count) for each in values)
    return values * 0 if isinstance(values, numpy.integer) else values


def _is_writeable(found: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return all(map(_is_writeable, found))
    return not isinstance(found, numpy.ndarray) or found.flags.writeable


_NUMBERS = (int, float, complex, *SCALARS)
_COMPUTED: set[tuple[Any, ...]] = set()
"""Names of torch's functions, and types of items and numbers that they were computed of."""


def _check_kernel(
    trial: Trial, target: Callable[..., Any], args: list[Any], named: dict[str, Any], expected: Any
) -> None:
    """Compute torch's version. Of known values alone the items are known too."""
    numbers = [(type(each), repr(each)) for each in (*args, *named.values()) if isinstance(each, _NUMBERS)]
    key = trial.name, *(ones.dtype for _, ones in trial.arrays), *numbers
    if key in _COMPUTED and trial.arrays:
        return
    with unset_fake_temporarily(), torch._C.DisableTorchFunction():
        found = target(*for_torch(args), **for_torch(named))
        if not trial.arrays and isinstance(expected, numpy.ndarray) and isinstance(found, torch.Tensor):
            if expected.shape == found.shape and not numpy.allclose(found.numpy(), expected, equal_nan=True):
                raise ValueError("it gives other items")
    _COMPUTED.add(key)


_DIVISIONS = frozenset("floor_divide floordiv mod remainder fmod divmod power pow".split())
_POWERS = frozenset("pow power float_power".split())
_INDEXING = frozenset({"getitem", "take", "take_along_axis"})
_ROUNDING = frozenset("round round_ around".split())
_COMPARING = frozenset("lt le eq ne gt ge setitem clip where isclose full_like".split())
"""Functions, beside ufuncs, that convert a number to the type of an array's items."""


def _check_numbers(trial: Trial, real: Any, values: list[Any]) -> None:
    """Break where torch's version differs from numpy's for some items, which a trial on ones does not show."""
    kinds = {ones.dtype.kind for _, ones in trial.arrays}
    if isinstance(real, numpy.ufunc) or trial.name in _COMPARING:
        bounds = [numpy.iinfo(ones.dtype) for _, ones in trial.arrays if ones.dtype.kind in "iu"]
        known = [each for each in values if type(each) is int or isinstance(each, numpy.integer)]
        if any(not limits.min <= number <= limits.max for limits in bounds for number in known):
            trial.differs("the last bits of a number that their type can't hold")
    if trial.arrays and trial.name in _DIVISIONS and kinds <= set("iub"):
        by = values[1] if len(values) > 1 else None
        is_known = isinstance(by, (int, float, numpy.number)) and not any(by is ones for _, ones in trial.arrays)
        if not is_known or by in (0, -1):  # torch raises, or stops the process: the least integer has no opposite
            trial.differs("an error for some integers")
    if trial.name in _INDEXING and any(ones.ndim > 1 and not ones.flags.c_contiguous for _, ones in trial.arrays[1:]):
        trial.differs("strides that fake tensors don't have")
    if trial.name in _POWERS and "c" in kinds:
        trial.differs("NaN for powers of zero")
    if trial.name in _ROUNDING and not kinds <= set("fc"):
        trial.differs("integers as they are")
