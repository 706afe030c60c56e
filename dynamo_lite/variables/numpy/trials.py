"""Trials of numpy's functions and torch's versions, on arrays of ones like the traced ones.

numpy's result shows which dtype, shape and strides torch's version must return, and whether its result is a view.
Torch's version is computed too, as fake tensors don't show that a kernel is missing.
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

from dynamo_lite.insight.break_reasons import (
    NumpyCall,
    OperatorFailed,
    OperatorWarns,
)
from dynamo_lite.records.code_origin import FOLDED_ERRORS
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable

from .node_targets import for_torch, numpy_dtype
from .scalars import SCALARS

_LARGEST = 1 << 24
"""How many items an array of a trial may have."""


class ArrayVariable(VariableTracker):
    """An array on the memory of a tensor of the graph. ``scalar``: it is a numpy scalar."""

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
    """A function's name and its arrays in a trial."""

    name: str
    size: Callable[[Any], int]
    """The number that replaces a symbolic int."""
    arrays: list[tuple[ArrayVariable, Any]]
    """Each array, and the array of ones that replaces it."""

    def allow_writes(self) -> None:
        for _, ones in self.arrays:
            if isinstance(ones, numpy.ndarray):
                ones.flags.writeable = True

    def sizes(self, numbers: Iterable[object]) -> tuple[int, ...]:
        return tuple(map(self.size, numbers))

    def differs(self, difference: str) -> NoReturn:
        """Break: torch's version gives another result."""
        unsupported(NumpyCall(f"numpy's {self.name}", f"torch's version gives {difference}"))


def try_call(
    tx: Translator, target: Callable[..., Any], real: Callable[..., Any], args: Args, kwargs: Kwargs, factor: int
) -> tuple[Any, Trial]:
    """Call numpy's function on arrays of ones; return its result and the trial. ``factor``: as in `Symbols.at`."""
    trial, values, named = _trial_of(tx, target, args, kwargs, factor)
    _check_numbers(trial, real, [*values, *named.values()])
    try:
        with warnings.catch_warnings(record=True) as caught, numpy.errstate(all="ignore"):
            warnings.simplefilter("always")
            result = real(*values, **named)
            if not _is_writeable(result):  # a view of an argument, or an array that numpy makes read-only
                trial.allow_writes()
                result = real(*values, **named)
                if not _is_writeable(result):
                    trial.differs("a writeable array")
            _check_kernel(trial, target, values, named, result)
    except FOLDED_ERRORS as error:
        reraise_if_asynchronous(error)
        unsupported(OperatorFailed(trial.name, f"{type(error).__name__}: {error}"))
    if caught:
        unsupported(OperatorWarns(f"numpy's {trial.name}", str(caught[0].message)))
    return result, trial


def _trial_of(
    tx: Translator, target: Callable[..., Any], args: Args, kwargs: Kwargs, factor: int
) -> tuple[Trial, list[Any], dict[str, Any]]:
    """A trial and its arguments. The arrays are read-only, so that a function that writes into them fails."""
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
        unsupported(NumpyCall("a numpy function", f"an array has more than {_LARGEST} items"))
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, steps)) if math.prod(shape) else 0
    strides = tuple(stride * dtype.itemsize for stride in steps)
    ones = numpy.ndarray(shape, dtype, numpy.ones(extent, dtype), 0, strides if extent else None)
    ones.flags.writeable = False
    return ones


def _is_writeable(result: object) -> bool:
    if isinstance(result, (list, tuple)):
        return all(map(_is_writeable, result))
    return not isinstance(result, numpy.ndarray) or result.flags.writeable


_NUMBERS = (int, float, complex, *SCALARS)
_COMPUTED: set[tuple[Any, ...]] = set()
"""Functions whose versions in torch have been computed, with the dtypes and numbers of the arguments."""


def _check_kernel(
    trial: Trial, target: Callable[..., Any], args: list[Any], named: dict[str, Any], expected: object
) -> None:
    """Compute torch's version. If there are no arrays among the arguments, the items are compared too."""
    numbers = [(type(each), repr(each)) for each in (*args, *named.values()) if isinstance(each, _NUMBERS)]
    key = trial.name, *(ones.dtype for _, ones in trial.arrays), *numbers
    if key in _COMPUTED and trial.arrays:
        return
    with unset_fake_temporarily(), torch._C.DisableTorchFunction():
        result = target(*for_torch(args), **for_torch(named))
        if not trial.arrays and isinstance(expected, numpy.ndarray) and isinstance(result, torch.Tensor):
            if expected.shape == result.shape and not numpy.allclose(result.numpy(), expected, equal_nan=True):
                raise ValueError("it gives other items")
    _COMPUTED.add(key)


_DIVISIONS = frozenset("floor_divide floordiv mod remainder fmod divmod power pow".split())
_POWERS = frozenset("pow power float_power".split())
_INDEXING = frozenset({"getitem", "take", "take_along_axis"})
_ROUNDING = frozenset("round round_ around".split())
_COMPARING = frozenset("lt le eq ne gt ge clip where isclose full_like".split())
"""Functions, in addition to ufuncs, that convert a number to an array's dtype."""


def _check_numbers(trial: Trial, real: object, values: list[Any]) -> None:
    """Break where torch's version gives other results for some items, which a trial on ones doesn't show."""
    kinds = {ones.dtype.kind for _, ones in trial.arrays}
    if isinstance(real, numpy.ufunc) or trial.name in _COMPARING:
        bounds = [numpy.iinfo(ones.dtype) for _, ones in trial.arrays if ones.dtype.kind in "iu"]
        integers = [each for each in values if type(each) is int or isinstance(each, numpy.integer)]
        if any(not limits.min <= number <= limits.max for limits in bounds for number in integers):
            trial.differs("the last bits of a number that is out of the dtype's range")
    if trial.arrays and trial.name in _DIVISIONS and kinds <= set("iub"):
        divisor = values[1] if len(values) > 1 else None
        is_array = any(divisor is ones for _, ones in trial.arrays)
        is_constant = isinstance(divisor, (int, float, numpy.number)) and not is_array
        if not is_constant or divisor in (0, -1):  # torch raises, or by -1 stops the process for the least integer
            trial.differs("an error for some integers")
    if trial.name in _INDEXING and any(ones.ndim > 1 and not ones.flags.c_contiguous for _, ones in trial.arrays[1:]):
        trial.differs("strides that fake tensors don't have")
    if trial.name in _POWERS and "c" in kinds:
        trial.differs("NaN for powers of zero")
    if trial.name in _ROUNDING and not kinds <= set("fc"):
        trial.differs("unrounded integers")
