"""numpy: arrays as tensors of the graph whose operations are those of ``torch._numpy``.

What torch computes for an array is taken where numpy's own function, called on an array of ones of the same shape and
type, gives a result of the same type, shape and layout that shares memory with the same arguments, and torch's can be
computed of ones as well. Else the graph breaks, and numpy computes it. What writes into an array is tried likewise:
both are to write the same items. Values may differ in their last bits, as sums may be taken in another order.
"""

from __future__ import annotations

import functools
import math
import operator
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn

import numpy
import torch
import torch._numpy
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ...interrupts import let_through
from ...reasons import DataDependentValue, OperatorFailed, UnsupportedOperation
from ...skip import FOLDED_ERRORS
from ...source import Source
from ..attributes import BuiltinMethodVariable, class_lookup
from ..base import Args, Exhausted, Kwargs, VariableTracker, call_handler, unsupported, wraps_type
from ..c_callable import BuiltinVariable
from ..constant import ConstantVariable
from ..operations import GetItemIterator
from ..registry import Model, models_raw
from ..sequence import ListVariable, TupleVariable
from ..symbolic import ShapeNumber
from ..symbols import BINARY, COMPARE, UNARY
from ..tensor import TensorVariable, record
from .numpy_replaced import OF_ARRAYS, OF_NUMPY, OF_PYTHON
from .numpy_scalars import SCALARS, NumpyScalarVariable, has_array, is_cast, known_result
from .numpy_values import gives_other_items, is_of_items
from .numpy_warnings import calm, is_quiet

_KINDS = (int, float, bool, complex, *SCALARS)
_LARGEST = 1 << 24  # elements of an array that a trial is made on


# -- arrays ------------------------------------------------------------------------------------------------------------


class NdarrayVariable(VariableTracker):
    """An array whose data is a tensor of the graph. ``scalar``: it is a numpy scalar."""

    __slots__ = ("tensor", "scalar")

    def __init__(self, tensor: TensorVariable, scalar: bool = False, source: Source | None = None) -> None:
        self.source = source
        self.tensor = tensor
        self.scalar = scalar

    def python_type(self) -> type:
        return numpy_dtype(self.tensor.fake.dtype).type if self.scalar else numpy.ndarray

    def describe(self) -> str:
        return f"a numpy array of shape {tuple(self.tensor.fake.shape)}"

    def as_fx(self) -> tuple[Any, Any]:
        if self.scalar:  # a number to torch, which gives way to a tensor's type
            return super().as_fx()
        return self.tensor.as_fx()

    def beside(self, tx: Any, tensor: VariableTracker, symbol: str, reflected: bool = False) -> VariableTracker:
        """Of the tensor's type, which the number is cast to by arithmetic of single and double precision."""
        assert isinstance(tensor, TensorVariable)
        other = tensor.fake.dtype
        if not self.scalar or not is_cast(numpy_dtype(self.tensor.fake.dtype), other, symbol, reflected):
            return self
        return record(tx, "call_method", "to", [self.tensor, ConstantVariable(other)], {})

    def truth(self, tx: Any) -> bool:
        unsupported(DataDependentValue("the truth of a numpy array"))

    def length(self, tx: Any) -> int:
        if not self.tensor.fake.ndim:
            tx.raise_error(TypeError, "len() of unsized object")
        return self.tensor.fake.shape[0]

    def iterate(self, tx: Any) -> VariableTracker:
        self.length(tx)
        return ArrayIterator(self)

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        fake = self.tensor.fake
        facts = {
            "shape": tuple(fake.shape),
            "ndim": fake.ndim,
            "size": fake.numel(),
            "itemsize": fake.itemsize,
            "nbytes": fake.numel() * fake.itemsize,
            "dtype": numpy_dtype(fake.dtype),
        }
        if name in facts:
            return tx.make(facts[name])
        if name == "strides" and min(fake.shape, default=2) > 1:  # of others they may be anything
            return tx.make(tuple(stride * fake.itemsize for stride in fake.stride()))
        if name in ("T", "real", "imag"):
            return call(tx, attribute(name), functools.partial(_read, name), [self], {})
        if callable(class_lookup(numpy.ndarray, name)) and not name.startswith("__"):
            return BuiltinMethodVariable(self, name)
        return super().getattr(tx, name)

    def call_method(self, tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("fill", "sort"):
            return call_handler(_WRITING[name], (tx, self, *args), kwargs, name)
        if name not in _METHODS:
            unsupported(DataDependentValue(f"numpy.ndarray.{name}()"))
        return call(tx, method(name), functools.partial(_call_method, name), [self, *args], kwargs)

    def getitem(self, tx: Any, key: VariableTracker) -> VariableTracker:
        return call(tx, _PYTHON["getitem"], operator.getitem, [self, key], {})

    def binary(self, tx: Any, symbol: str, other: VariableTracker, reflected: bool = False) -> VariableTracker | None:
        return self._with(tx, BINARY[symbol], other, reflected)

    def compare(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self._with(tx, COMPARE[symbol], other, False)

    def _with(self, tx: Any, function: Any, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if self.scalar and isinstance(other, TensorVariable):
            return None
        if not isinstance(other, (NdarrayVariable, ConstantVariable, NumpyScalarVariable)):
            unsupported(UnsupportedOperation(f"{function.__name__}()", f"an array and {other.describe()}"))
        args: Args = [other, self] if reflected else [self, other]
        return call(tx, _PYTHON[function.__name__], function, args, {})

    def unary(self, tx: Any, function: Any) -> VariableTracker:
        return call(tx, _PYTHON[function.__name__], function, [self], {})

    def inplace(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if self.scalar:
            return None
        return self.hold(tx, self.binary(tx, symbol, other))

    def hold(self, tx: Any, found: VariableTracker | None) -> VariableTracker:
        """Write a result of this array's shape into it."""
        new = found.tensor if isinstance(found, NdarrayVariable) else None
        if new is None or new.fake.shape != self.tensor.fake.shape or not _can_cast(found, self):
            unsupported(UnsupportedOperation("a write", "a numpy array, which can't hold the result"))
        _check_writable(tx, self)
        record(tx, "call_method", "copy_", [self.tensor, _apart(tx, found, self)], {})
        return self

    def setitem(self, tx: Any, key: VariableTracker, value: VariableTracker) -> None:
        is_mask = isinstance(key, NdarrayVariable) and key.tensor.fake.dtype is torch.bool and not key.scalar
        if _holds_array(key) and not (is_mask and value.is_constant()):
            unsupported(UnsupportedOperation("a write", "items of an array that another array picks"))
        write(tx, self, key, value)

    def reconstruct(self, cg: Any) -> None:
        cg.call(_scalar_of if self.scalar else _array_of, [lambda: cg.load(self.tensor)])


class ArrayIterator(GetItemIterator):
    """It sees what is written into the array meanwhile."""

    __slots__ = ()

    def next(self, tx: Any) -> VariableTracker:
        if self.at >= self.of.length(tx):
            raise Exhausted
        return super().next(tx)

    def reconstruct(self, cg: Any) -> None:
        cg.call(_iterator_from, [lambda: cg.load(self.of), lambda: cg.load_const(self.at)])


def _iterator_from(array: Any, at: int) -> Any:
    iterator = iter(array)
    iterator.__setstate__(at)
    return iterator


def _array_of(tensor: torch.Tensor) -> Any:
    return tensor.numpy()


def _scalar_of(tensor: torch.Tensor) -> Any:
    return tensor.numpy()[()]


@functools.cache
def numpy_dtype(dtype: torch.dtype) -> Any:
    """numpy's name for a dtype of torch's."""
    return numpy.dtype(str(dtype).removeprefix("torch."))


_METHODS = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "astype", "clip", "conj", "copy", "cumprod", "cumsum", "diagonal"}
    | {"dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape", "round", "squeeze", "std", "sum"}
    | {"swapaxes", "take", "trace", "transpose", "var"}
)
"""Methods that compute a new array or a view."""


def _operator(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
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
    return _operator(name, OF_ARRAYS.get(name, functools.partial(_call_method, name)))


@functools.cache
def attribute(name: str) -> Callable[..., Any]:
    return _operator(name, functools.partial(_read, name))


@functools.cache
def function_of_torch(function: Any) -> Callable[..., Any] | None:
    """torch's version of one of numpy's functions."""
    name = function.__name__
    if function in OF_NUMPY:
        return _operator(name, OF_NUMPY[function])
    for theirs, ours, names in _PLACES:
        found = getattr(ours, name, None) if names is None or name in names else None
        if getattr(theirs, name, None) is function and isinstance(found, types.FunctionType):
            return _operator(name, found)
    return None


_PLACES: tuple[tuple[Any, Any, frozenset[str] | None], ...] = (
    (numpy, torch._numpy, None),
    (numpy.fft, torch._numpy.fft, None),
    (numpy.linalg, torch._numpy.linalg, frozenset({"norm", "det", "multi_dot"})),
)
"""Modules of numpy's and torch's, and the functions that have one result and raise nothing on the data (None: all)."""


def _call_method(name: str, array: Any, *args: Any, **named: Any) -> Any:
    return getattr(array, name)(*args, **named)


def _read(name: str, array: Any) -> Any:
    return getattr(array, name)


_PYTHON = {
    each.__name__: _operator(each.__name__, OF_PYTHON.get(each, each))
    for each in (*BINARY.values(), *COMPARE.values(), *UNARY.values(), operator.getitem)
}
"""Python's operators over arrays, by their names in the module operator."""


# -- recording ---------------------------------------------------------------------------------------------------------


def call(tx: Any, target: Any, real: Callable[..., Any], args: Args, kwargs: Kwargs) -> VariableTracker:
    """Record ``target``, which stands for numpy's ``real``, if a trial shows that it is the same."""
    out = kwargs.get("out")
    if isinstance(real, numpy.ufunc) and isinstance(out, NdarrayVariable):
        return out.hold(tx, call(tx, target, real, args, {name: kwargs[name] for name in kwargs if name != "out"}))
    if out is not None or "where" in kwargs:
        unsupported(UnsupportedOperation("a numpy function with out= or where=", "arrays"))
    expected, tried = _try(tx, target, real, args, kwargs, 1)
    if isinstance(expected, SCALARS):
        target = _of_its_own(target)
    for each, ones in tried.arrays:
        if expected is ones and not isinstance(ones, numpy.bool_):  # of which there are two objects in all
            return each
    if tried.may_fail(target, args):
        unsupported(UnsupportedOperation("a numpy function", "integers, of which torch's version may raise"))
    named = {name: _for_graph(tx, value) for name, value in kwargs.items()}
    found = record(tx, "call_function", target, [_for_graph(tx, arg) for arg in args], named)
    paired = _paired(tx, expected, found, tried)
    _expect_no_warning(tx, target, real, args, found)
    if tx.graph.symbols.there_are:  # numpy is to do the same at other sizes
        other, tried = _try(tx, target, real, args, kwargs, 2)
        _paired(tx, other, found, tried)
    return paired


def _expect_no_warning(tx: Any, target: Any, real: Any, args: Args, found: VariableTracker) -> None:
    """Go on as if numpy warned of nothing in the items."""
    given = [each for each in (arg.realize() for arg in args) if isinstance(each, NdarrayVariable)]
    kinds = [each.fake.dtype for each in _tensors_in(found)]
    inexact = [kind.is_floating_point or kind.is_complex for kind in kinds]
    scalars = real in _PLAIN_OPERATORS and not any(inexact) and all(each.scalar for each in given)
    if torch.bool in kinds or not given or not (any(inexact) or scalars or target.__name__ == "numpy_astype"):
        return
    safe = target.__name__ == "numpy_astype" and numpy.can_cast(
        *map(numpy_dtype, (given[0].tensor.fake.dtype, kinds[0]))
    )
    if (is_quiet(target) or safe) and not scalars:
        return
    told: Args = [_for_graph(tx, arg) for arg in args] if scalars else [each.tensor for each in given]
    expected = tx.attempt.expected
    before = expected[-1] if expected and _is_of_calm(expected[-1][0].node) else None
    named = {} if before is None else {"before": before[0]}  # one condition says it of all
    condition = record(tx, "call_function", calm(real, is_of_items(real), scalars), [found, *told], named)
    if not (isinstance(condition, TensorVariable) and condition.expect(tx, True)):
        unsupported(UnsupportedOperation("a numpy function", "arrays, here where nobody could tell of its warnings,"))
    if before is not None:
        expected.remove(before)


def _is_of_calm(node: torch.fx.Node) -> bool:
    of = node.args[0]
    return isinstance(of, torch.fx.Node) and getattr(of.target, "__name__", None) == "numpy_is_calm"


_PLAIN_OPERATORS = frozenset({operator.add, operator.sub, operator.mul, operator.pow, operator.neg, operator.abs})


def _tensors_in(found: VariableTracker) -> list[Any]:
    found = found.realize()
    if isinstance(found, TensorVariable):
        return [found]
    return [each for part in found.contained() or () for each in _tensors_in(part)]


@functools.cache
def _of_its_own(target: Callable[..., Any]) -> Callable[..., Any]:
    """One whose result is a scalar, which what is written into the array later does not change."""

    def copying(*args: Any, **named: Any) -> Any:
        found = target(*args, **named)
        shares = isinstance(found, torch.Tensor) and any(_same_memory(found, each) for each in args)
        return found.clone() if shares else found

    copying.__name__ = copying.__qualname__ = target.__name__
    return copying


def _same_memory(one: torch.Tensor, other: Any) -> bool:
    return isinstance(other, torch.Tensor) and one.untyped_storage()._cdata == other.untyped_storage()._cdata


def write(tx: Any, array: NdarrayVariable, key: VariableTracker, value: VariableTracker) -> None:
    """``array[key] = value``, if a trial shows that torch's version writes the same."""
    _check_writable(tx, array)
    if not _can_cast(value, array):
        unsupported(UnsupportedOperation("a write", f"a numpy array, which can't hold {value.describe()}"))
    for factor in (1, 2) if tx.graph.symbols.there_are else (1,):
        _try_write(tx, [array, key, value], factor)
    record(tx, "call_function", _SETITEM, [array.tensor, _for_graph(tx, key), _apart(tx, value, array)], {})


_SETITEM = torch.fx.node.has_side_effect(_operator("setitem", operator.setitem))


def _try_write(tx: Any, args: Args, factor: int) -> None:
    tried, (trial, key, value), _ = _trial(tx, args, {}, factor)
    with unset_fake_temporarily(), torch._C.DisableTorchFunction():
        given = _for_torch([trial, key, value])
    tried.allow_writes()
    try:
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("error")
            trial[key] = value
            with unset_fake_temporarily(), torch._C.DisableTorchFunction():
                _SETITEM(*given)
                same = numpy.array_equal(given[0].numpy(), trial, equal_nan=trial.dtype.kind in "fc")
    except (*FOLDED_ERRORS, Warning) as error:
        let_through(error)
        unsupported(OperatorFailed("setitem", f"{type(error).__name__}: {error}"))
    if not same:
        _in_another_form("other items")


def _can_cast(value: Any, array: NdarrayVariable) -> bool:
    """Whether an array takes these items as numbers of its own kind."""
    dtype = numpy_dtype(array.tensor.fake.dtype)
    if isinstance(value, NdarrayVariable):
        return numpy.can_cast(numpy_dtype(value.tensor.fake.dtype), dtype, "same_kind")
    known = value.as_constant() if value.is_constant() else None
    if isinstance(known, SCALARS):
        return numpy.can_cast(known.dtype, dtype, "same_kind")
    return type(known) in _KINDS and numpy.result_type(dtype, known) == dtype


def _check_writable(tx: Any, array: NdarrayVariable) -> None:
    """Torch counts writes into tensors, and looks at the count in backward passes; numpy tells it of none."""
    found = tx.graph.all_in_storage(array.tensor.fake)
    of_tensors = not all(each.convert is torch.from_numpy for each in found)
    if of_tensors or any(each.fake.requires_grad for each in tx.attempt.fakes.values()):
        unsupported(UnsupportedOperation("a write", "a numpy array, beside tensors that tell of writes"))
    if array.scalar:
        unsupported(UnsupportedOperation("a write", "a numpy scalar"))


def _apart(tx: Any, value: Any, array: NdarrayVariable) -> VariableTracker:
    """What is written into an array, which may be a part of it."""
    value = _for_graph(tx, value)
    is_part = isinstance(value, TensorVariable) and _same_memory(value.fake, array.tensor.fake)
    return record(tx, "call_method", "clone", [value], {}) if is_part else value


def _fill(tx: Any, array: NdarrayVariable, value: VariableTracker) -> VariableTracker:
    write(tx, array, ConstantVariable(...), value)
    return ConstantVariable(None)


def _sort(tx: Any, array: NdarrayVariable, axis: VariableTracker | None = None) -> VariableTracker:
    target = function_of_torch(numpy.sort)
    assert target is not None
    array.hold(tx, call(tx, target, numpy.sort, [array], {} if axis is None else {"axis": axis}))
    return ConstantVariable(None)


_WRITING: dict[Any, Callable[..., VariableTracker]] = {"fill": _fill, "sort": _sort, numpy.copyto: _fill}
"""Methods of the array, and functions, that write into it."""


def _try(tx: Any, target: Any, real: Callable[..., Any], args: Args, kwargs: Kwargs, factor: int) -> tuple[Any, Tried]:
    """What numpy makes of arrays of ones where the data isn't known. ``factor``: as in `Symbols.at`."""
    tried, trial_args, trial_named = _trial(tx, args, kwargs, factor)
    try:
        with warnings.catch_warnings(record=True) as told, numpy.errstate(all="ignore"):
            warnings.simplefilter("always")
            found = real(*trial_args, **trial_named)
            if not _is_writeable(found):  # a view of what is given, or one of numpy's that nobody is to write to
                tried.allow_writes()
                found = real(*trial_args, **trial_named)
                if not _is_writeable(found):
                    _in_another_form("an array that can be written to")
            tried.check_kernel(target, trial_args, trial_named, found)
    except FOLDED_ERRORS as error:
        let_through(error)
        unsupported(OperatorFailed(getattr(target, "__name__", "numpy"), f"{type(error).__name__}: {error}"))
    if told:
        unsupported(UnsupportedOperation("a numpy function", f"arrays, of which it warns: {told[0].message}"))
    if not tried.may_fail(target, args):
        tried.check_values(target, real, trial_args, trial_named)
    return found, tried


def _trial(tx: Any, args: Args, kwargs: Kwargs, factor: int) -> tuple[Tried, list[Any], dict[str, Any]]:
    """Arguments that arrays of ones, which can't be written to, are in."""
    tried = Tried(functools.partial(tx.graph.symbols.at, factor=factor), [])

    def trial(variable: VariableTracker) -> Any:
        if isinstance(variable, ShapeNumber) and variable.python_type() is int and not variable.hangs_on_data:
            return tried.size(variable.number)
        if not isinstance(variable, NdarrayVariable):
            return variable.python_value(tx)
        tried.arrays.append((variable, _ones_like(variable, tried.size)))
        return tried.arrays[-1][1]

    trial_args = [arg.realize().made_real(trial) for arg in args]
    trial_named = {name: value.realize().made_real(trial) for name, value in kwargs.items()}
    return tried, trial_args, trial_named


class Tried(NamedTuple):
    """A trial: what numbers of symbols are in it, and arrays with what stood for each."""

    size: Callable[[Any], int]
    arrays: list[tuple[NdarrayVariable, Any]]

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
        key = target.__name__, tuple(trial.dtype for _, trial in self.arrays)
        if key in _COMPUTED and self.arrays:
            return
        with unset_fake_temporarily(), torch._C.DisableTorchFunction():
            found = target(*_for_torch(args), **_for_torch(named))
            if not self.arrays and isinstance(expected, numpy.ndarray) and isinstance(found, torch.Tensor):
                if found.shape != expected.shape or not numpy.allclose(found.numpy(), expected, equal_nan=True):
                    raise ValueError("it gives other items")
        _COMPUTED.add(key)

    def check_values(self, target: Any, real: Any, args: list[Any], named: dict[str, Any]) -> None:
        """What torch's version makes of items that are out of the ordinary may be something else."""
        unknown = [trial for _, trial in self.arrays]
        if not unknown or not is_of_items(real):
            return
        try:
            with unset_fake_temporarily(), torch._C.DisableTorchFunction():
                other = gives_other_items(target, real, _for_torch, args, named, unknown)
        except FOLDED_ERRORS as error:  # on some numbers
            let_through(error)
            other = True
        if other:
            _in_another_form("other items of some numbers")


_COMPUTED: set[tuple[str, tuple[Any, ...]]] = set()
"""Functions of torch's, by name, and types of items that they were computed of."""
_OF_INTEGERS = frozenset(
    "numpy_" + name
    for name in ("floor_divide", "floordiv", "mod", "remainder", "fmod", "divmod", "power", "pow", "gcd", "lcm")
)


def _for_torch(values: Any) -> Any:
    """Arguments of a trial as tensors, and types by name."""
    if isinstance(values, (numpy.ndarray, *SCALARS)):
        return torch.from_numpy(numpy.array(values))
    if isinstance(values, (list, tuple)):
        return type(values)(map(_for_torch, values))
    if isinstance(values, dict):
        return {name: _for_torch(value) for name, value in values.items()}
    is_kind = isinstance(values, numpy.dtype) or any(values is each for each in _KINDS)
    return numpy.dtype(values).name if is_kind else values


def _ones_like(variable: NdarrayVariable, size: Callable[[Any], int]) -> Any:
    fake = variable.tensor.fake
    dtype = numpy_dtype(fake.dtype)
    if variable.scalar:
        return dtype.type(1)
    shape, steps = (tuple(map(size, numbers)) for numbers in (fake.shape, fake.stride()))
    if math.prod(shape) > _LARGEST:
        unsupported(UnsupportedOperation("a numpy function", "an array as large as this"))
    reach = 1 + sum((size - 1) * stride for size, stride in zip(shape, steps)) if math.prod(shape) else 0
    strides = tuple(stride * dtype.itemsize for stride in steps)
    ones = numpy.ndarray(shape, dtype, numpy.ones(reach, dtype), 0, strides if reach else None)
    ones.flags.writeable = False  # what writes into its arguments is numpy's
    return ones


def _is_writeable(found: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return all(map(_is_writeable, found))
    return not isinstance(found, numpy.ndarray) or found.flags.writeable


def _for_graph(tx: Any, variable: VariableTracker) -> VariableTracker:
    """Types of items by name, scalars as tensors."""
    variable = variable.realize()
    if isinstance(variable, NdarrayVariable):
        return variable.tensor
    parts = variable.contained()
    if parts is not None and _holds_array(variable):
        return variable.with_contained(tx, iter([_for_graph(tx, part) for part in parts]))
    known = variable.as_constant() if variable.is_constant() else None
    if isinstance(known, numpy.dtype) or any(known is each for each in _KINDS):
        return ConstantVariable(numpy.dtype(known).name)
    return variable


def _paired(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    """What was recorded as what numpy returns."""
    return _PAIRED.get(type(expected), _paired_constant)(tx, expected, found.realize(), tried)


def _paired_scalar(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    _check_form(expected, found, tried)
    return NdarrayVariable(found, True)  # type: ignore[arg-type]


def _paired_items(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    items = found.contained()
    if items is None or len([*items]) != len(expected):
        _in_another_form(f"{found.describe()} for {type(expected).__name__}")
    paired = [_paired(tx, one, item, tried) for one, item in zip(expected, items)]
    return ListVariable(paired) if type(expected) is list else TupleVariable(paired)


def _paired_constant(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    known = found.as_constant() if found.is_constant() else None
    if type(expected) is not type(known) or expected != known:
        _in_another_form(f"{found.describe()} for {type(expected).__name__}")
    return found


def _paired_array(tx: Any, expected: Any, found: VariableTracker, tried: Tried) -> VariableTracker:
    _check_form(expected, found, tried)
    assert isinstance(found, TensorVariable)
    sources = [(variable.tensor.fake, trial) for variable, trial in tried.arrays if isinstance(trial, numpy.ndarray)]
    storage = found.fake.untyped_storage()._cdata
    shared = [
        (numpy.shares_memory(expected, trial), fake.untyped_storage()._cdata == storage) for fake, trial in sources
    ]
    if any(theirs and not ours for ours, theirs in shared):
        found = record(tx, "call_method", "clone", [found], {})  # type: ignore[assignment]
    if any(ours and not theirs for ours, theirs in shared):
        _in_another_form("a copy for a view")
    sizes, strides = (tried.sizes(numbers) for numbers in (found.fake.shape, found.fake.stride()))
    layout = [stride * found.fake.itemsize for size, stride in zip(sizes, strides) if size > 1]
    wanted = [stride for size, stride in zip(expected.shape, expected.strides) if size > 1]
    if layout != wanted and math.prod(sizes):
        _in_another_form(f"strides {layout} for {wanted}")
    return NdarrayVariable(found)


_PAIRED: dict[type, Callable[..., VariableTracker]] = {
    numpy.ndarray: _paired_array,
    **dict.fromkeys((list, tuple), _paired_items),
    **dict.fromkeys(SCALARS, _paired_scalar),
}
"""By the type of what numpy returned."""


def _check_form(expected: Any, found: VariableTracker, tried: Tried) -> None:
    if not isinstance(found, TensorVariable):
        _in_another_form(f"{found.describe()} for {type(expected).__name__}")
    fake = found.fake
    shape = tried.sizes(fake.shape)
    if numpy_dtype(fake.dtype) != expected.dtype or shape != expected.shape:
        _in_another_form(f"{fake.dtype} of {shape} for {expected.dtype} of {expected.shape}")


def _in_another_form(how: str) -> NoReturn:
    unsupported(UnsupportedOperation("a numpy function", f"arrays, for which torch's version gives {how},"))


# -- functions ---------------------------------------------------------------------------------------------------------


class NumpyFunctionVariable(BuiltinVariable):
    """A function of numpy's."""

    __slots__ = ()

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        return call_function(tx, self.value, args, kwargs)


def call_function(tx: Any, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """One of numpy's functions: on known values numpy's own, on arrays torch's."""
    if function in _WRITING and args and isinstance(args[0].realize(), NdarrayVariable):
        return call_handler(_WRITING[function], (tx, *args), kwargs, function.__name__)
    everything = [*args, *kwargs.values()]
    arrays = any(map(_holds_array, everything))
    creates = function in _CREATORS
    if not arrays and not creates and all(map(tx.is_plain, everything)):
        named = {name: tx.python_value(value) for name, value in kwargs.items()}
        found = known_result(tx, function, [tx.python_value(arg) for arg in args], named)
        if not has_array(found):
            return tx.make(found)
        creates = True
    target = function_of_torch(function)
    if function in (numpy.array, numpy.asarray) and len(everything) == 1 and _is_row_of_arrays(args[0]):
        target = _STACK
    if target is None or not (arrays or creates):
        unsupported(UnsupportedOperation(f"numpy.{function.__name__}()", "these arguments"))
    return call(tx, target, function, args, kwargs)


_CREATORS = frozenset(
    {numpy.array, numpy.asarray, numpy.zeros, numpy.ones, numpy.full, numpy.arange, numpy.linspace, numpy.eye}
)


def _holds_array(variable: VariableTracker) -> bool:
    variable = variable.realize()
    return isinstance(variable, NdarrayVariable) or any(map(_holds_array, variable.contained() or ()))


_STACK = _operator("stack", torch._numpy.stack)


def _is_row_of_arrays(variable: VariableTracker) -> bool:
    parts = variable.realize().contained()
    return bool(parts) and all(isinstance(part.realize(), NdarrayVariable) for part in parts)


wraps_type(numpy.ufunc, type(numpy.sum))(NumpyFunctionVariable.by_identity)


def _model(function: Any) -> Model:
    return lambda tx, args, kwargs: call_function(tx, function, args, kwargs)


_IN_PYTHON = (
    getattr(numpy, name)
    for name, theirs in vars(torch._numpy).items()
    if isinstance(theirs, types.FunctionType) and isinstance(getattr(numpy, name, None), types.FunctionType)
)
for _function in (*_CREATORS, *SCALARS, *_IN_PYTHON, numpy.dtype, numpy.ascontiguousarray):
    models_raw(_function, _model(_function))
