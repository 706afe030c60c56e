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
from ..sequence import ListVariable, SliceVariable, TupleVariable
from ..symbolic import ShapeNumber
from ..symbols import BINARY, COMPARE
from ..tensor import TensorVariable, record
from .numpy_flips import backwards, flipped_of, forwards, reversal
from .numpy_scalars import SCALARS, NumpyScalarVariable, has_array, is_cast, known_result
from .numpy_targets import (
    BY_OPERATOR,
    KINDS,
    SET_FLIPPED,
    SETITEM,
    STACK,
    attribute,
    call_method,
    for_torch,
    function_of_torch,
    method,
    numpy_dtype,
    of_its_own,
    read,
    same_memory,
)
from .numpy_values import gives_other_items, is_of_items
from .numpy_warnings import calm, is_quiet

_LARGEST = 1 << 24  # elements of an array that a trial is made on


# -- arrays ------------------------------------------------------------------------------------------------------------


class NdarrayVariable(VariableTracker):
    """An array whose memory is that of a tensor of the graph, but for axes that go backwards (`numpy_flips`).
    ``scalar``: it is a numpy scalar."""

    __slots__ = ("memory", "scalar", "flips")

    def __init__(
        self,
        memory: TensorVariable,
        scalar: bool = False,
        source: Source | None = None,
        flips: tuple[int, ...] = (),
    ) -> None:
        self.source = source
        self.memory = memory
        self.scalar = scalar
        self.flips = flips

    @property
    def fake(self) -> torch.Tensor:
        """The facts of its memory."""
        return self.memory.fake

    def python_type(self) -> type:
        return numpy_dtype(self.fake.dtype).type if self.scalar else numpy.ndarray

    def describe(self) -> str:
        return f"a numpy array of shape {tuple(self.fake.shape)}"

    def as_fx(self) -> tuple[Any, Any]:
        if self.scalar or self.flips:  # a number to torch, which gives way to a tensor's type, or nothing
            return super().as_fx()
        return self.memory.as_fx()

    def items(self, tx: Any) -> TensorVariable:
        """What computes with it: its memory, or a flipped copy."""
        return turned(tx, self.memory, self.flips)  # type: ignore[return-value]

    def beside(self, tx: Any, tensor: VariableTracker, symbol: str, reflected: bool = False) -> VariableTracker:
        """Of the tensor's type, which the number is cast to by arithmetic of single and double precision."""
        assert isinstance(tensor, TensorVariable)
        other = tensor.fake.dtype
        if not self.scalar or not is_cast(numpy_dtype(self.fake.dtype), other, symbol, reflected):
            return self
        return record(tx, "call_method", "to", [self.memory, ConstantVariable(other)], {})

    def truth(self, tx: Any) -> bool:
        unsupported(DataDependentValue("the truth of a numpy array"))

    def length(self, tx: Any) -> int:
        if not self.fake.ndim:
            tx.raise_error(TypeError, "len() of unsized object")
        return self.fake.shape[0]

    def iterate(self, tx: Any) -> VariableTracker:
        self.length(tx)
        return ArrayIterator(self)

    def getattr(self, tx: Any, name: str) -> VariableTracker:
        fake = self.fake
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
            sizes = (-fake.itemsize if axis in self.flips else fake.itemsize for axis in range(fake.ndim))
            return tx.make(tuple(map(operator.mul, fake.stride(), sizes)))
        if name in ("T", "real", "imag"):
            return call(tx, attribute(name), functools.partial(read, name), [self], {})
        if callable(class_lookup(numpy.ndarray, name)) and not name.startswith("__"):
            return BuiltinMethodVariable(self, name)
        return super().getattr(tx, name)

    def call_method(self, tx: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("fill", "sort"):
            return call_handler(ON_ARRAYS[name], (tx, self, *args), kwargs, name)
        if name not in _METHODS:
            unsupported(DataDependentValue(f"numpy.ndarray.{name}()"))
        return call(tx, method(name), functools.partial(call_method, name), [self, *args], kwargs)

    def getitem(self, tx: Any, key: VariableTracker) -> VariableTracker:
        inside = forwards(tx, key, self.fake.shape, self.flips)
        if inside is None:
            return call(tx, BY_OPERATOR["getitem"], operator.getitem, [self, key], {})
        return backwards_along(inside.axes, NdarrayVariable(self.memory).getitem(tx, TupleVariable(inside.key)))

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
        return call(tx, BY_OPERATOR[function.__name__], function, args, {})

    def unary(self, tx: Any, function: Any) -> VariableTracker:
        return call(tx, BY_OPERATOR[function.__name__], function, [self], {})

    def inplace(self, tx: Any, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if self.scalar:
            return None
        return self.hold(tx, self.binary(tx, symbol, other))

    def hold(self, tx: Any, found: VariableTracker | None) -> VariableTracker:
        """Write a result of this array's shape into it."""
        if not isinstance(found, NdarrayVariable) or found.fake.shape != self.fake.shape or not _can_cast(found, self):
            unsupported(UnsupportedOperation("a write", "a numpy array, which can't hold the result"))
        _check_writable(tx, self)
        new = turned(tx, _apart(tx, found, self), self.flips)
        record(tx, "call_method", "copy_", [self.memory, new], {})
        return self

    def setitem(self, tx: Any, key: VariableTracker, value: VariableTracker) -> None:
        is_mask = isinstance(key, NdarrayVariable) and key.fake.dtype is torch.bool and not key.scalar
        if _holds_array(key) and not (is_mask and value.is_constant()):
            unsupported(UnsupportedOperation("a write", "items of an array that another array picks"))
        inside = forwards(tx, key, self.fake.shape, self.flips)
        if inside is None:
            write(tx, self, key, value)
        elif inside.axes:
            part = NdarrayVariable(self.memory).getitem(tx, TupleVariable(inside.key))
            write(tx, backwards_along(inside.axes, part), ConstantVariable(...), value)
        else:
            write(tx, NdarrayVariable(self.memory), TupleVariable(inside.key), value)

    def reconstruct(self, cg: Any) -> None:
        parts = [lambda: cg.load(self.memory)]
        if self.flips:
            cg.call(flipped_of, [*parts, lambda: cg.load_const(self.flips)])
        else:
            cg.call(_scalar_of if self.scalar else _array_of, parts)


def turned(tx: Any, tensor: VariableTracker, axes: tuple[int, ...]) -> VariableTracker:
    """A copy that goes the other way along these axes; without any the tensor itself."""
    return record(tx, "call_function", torch.flip, [tensor, tx.make(axes)], {}) if axes else tensor


def backwards_along(axes: tuple[int, ...], found: VariableTracker) -> VariableTracker:
    """A view whose memory was found, and the axes of which are these."""
    assert isinstance(found, NdarrayVariable)
    if axes and found.fake.numel() == 0:  # torch's strides of nothing have no sign
        unsupported(UnsupportedOperation("a view that goes backwards", "an array without items"))
    return NdarrayVariable(found.memory, False, None, axes) if axes else found


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


_METHODS = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "astype", "clip", "conj", "copy", "cumprod", "cumsum", "diagonal"}
    | {"dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape", "round", "squeeze", "std", "sum"}
    | {"swapaxes", "take", "trace", "transpose", "var"}
)
"""Methods that compute a new array or a view."""


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
        target = of_its_own(target)
    for each, ones in tried.arrays:
        if expected is ones and not isinstance(ones, numpy.bool_):  # of which there are two objects in all
            return each
    if tried.may_fail(target, args):
        unsupported(UnsupportedOperation("a numpy function", "integers, of which torch's version may raise"))
    if tried.is_view_of_flipped(expected):
        return _view_of_flipped(tx, target, real, args, kwargs)
    given = [_for_graph(tx, arg) for arg in args]
    found = record(tx, "call_function", target, given, {name: _for_graph(tx, value) for name, value in kwargs.items()})
    paired = _paired(tx, expected, found, tried)
    _expect_no_warning(tx, target, real, args, given, found)
    if tx.graph.symbols.there_are:  # numpy is to do the same at other sizes
        other, tried = _try(tx, target, real, args, kwargs, 2)
        _paired(tx, other, found, tried)
    return paired


def _view_of_flipped(tx: Any, target: Any, real: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """What numpy makes of arrays that go backwards is a view: it is one of their memory, if a trial shows that."""
    plain = [NdarrayVariable(arg.memory) if isinstance(arg, NdarrayVariable) else arg for arg in _realized(args)]
    found = call(tx, target, real, plain, kwargs)
    axes = set()
    for factor in (1, 2) if tx.graph.symbols.there_are else (1,):
        expected, tried = _try(tx, target, real, args, kwargs, factor)
        other, tried_plain = _try(tx, target, real, plain, kwargs, factor)
        axes.add(backwards(expected))
        if not isinstance(other, numpy.ndarray) or other.ndim != expected.ndim or len(axes) > 1:
            _in_another_form("another view")
        if _form_beside(other[reversal(backwards(expected))], tried_plain) != _form_beside(expected, tried):
            _in_another_form("another view")
    return backwards_along(axes.pop(), found)


def _form_beside(view: Any, tried: Tried) -> tuple[Any, ...]:
    """How a view lies in the memory of what was given."""
    if len(tried.arrays) > 1:
        _in_another_form("a view, perhaps of another array,")
    trial = tried.arrays[0][1]
    return view.shape, view.strides, view.ctypes.data - trial[reversal(backwards(trial))].ctypes.data


def _expect_no_warning(tx: Any, target: Any, real: Any, args: Args, values: Args, found: VariableTracker) -> None:
    """Go on as if numpy warned of nothing in the items. ``values``: the arguments in the graph."""
    of_arrays = [(arg, value) for arg, value in zip(_realized(args), values) if isinstance(arg, NdarrayVariable)]
    given = [arg for arg, _ in of_arrays]
    kinds = [each.fake.dtype for each in _tensors_in(found)]
    inexact = [kind.is_floating_point or kind.is_complex for kind in kinds]
    scalars = real in _PLAIN_OPERATORS and not any(inexact) and all(each.scalar for each in given)
    if torch.bool in kinds or not given or not (any(inexact) or scalars or target.__name__ == "numpy_astype"):
        return
    safe = target.__name__ == "numpy_astype" and numpy.can_cast(*map(numpy_dtype, (given[0].fake.dtype, kinds[0])))
    if (is_quiet(target) or safe) and not scalars:
        return
    told: Args = values if scalars else [value for _, value in of_arrays]
    expected = tx.attempt.expected
    before = expected[-1] if expected and _is_of_calm(expected[-1][0].node) else None
    named = {} if before is None else {"before": before[0]}  # one condition says it of all
    condition = record(tx, "call_function", calm(real, is_of_items(real), scalars), [found, *told], named)
    if not (isinstance(condition, TensorVariable) and condition.expect(tx, True)):
        unsupported(UnsupportedOperation("a numpy function", "arrays, here where nobody could tell of its warnings,"))
    if before is not None:
        expected.remove(before)


def _realized(args: Args) -> Args:
    return [arg.realize() for arg in args]


def _is_of_calm(node: torch.fx.Node) -> bool:
    of = node.args[0]
    return isinstance(of, torch.fx.Node) and getattr(of.target, "__name__", None) == "numpy_is_calm"


_PLAIN_OPERATORS = frozenset({operator.add, operator.sub, operator.mul, operator.pow, operator.neg, operator.abs})


def _tensors_in(found: VariableTracker) -> list[Any]:
    found = found.realize()
    if isinstance(found, TensorVariable):
        return [found]
    return [each for part in found.contained() or () for each in _tensors_in(part)]


def write(tx: Any, array: NdarrayVariable, key: VariableTracker, value: VariableTracker) -> None:
    """``array[key] = value``, if a trial shows that torch's version writes the same."""
    _check_writable(tx, array)
    if not _can_cast(value, array):
        unsupported(UnsupportedOperation("a write", f"a numpy array, which can't hold {value.describe()}"))
    for factor in (1, 2) if tx.graph.symbols.there_are else (1,):
        _try_write(tx, [array, key, value], factor)
    given = [array.memory, _for_graph(tx, key), _apart(tx, value, array)]
    if array.flips:
        record(tx, "call_function", SET_FLIPPED, [*given, tx.make(array.flips)], {})
    else:
        record(tx, "call_function", SETITEM, given, {})


def _try_write(tx: Any, args: Args, factor: int) -> None:
    tried, (trial, key, value), _ = _trial(tx, args, {}, factor)
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
        _in_another_form("other items")


def _can_cast(value: Any, array: NdarrayVariable) -> bool:
    """Whether an array takes these items as numbers of its own kind."""
    dtype = numpy_dtype(array.fake.dtype)
    if isinstance(value, NdarrayVariable):
        return numpy.can_cast(numpy_dtype(value.fake.dtype), dtype, "same_kind")
    known = value.as_constant() if value.is_constant() else None
    if isinstance(known, SCALARS):
        return numpy.can_cast(known.dtype, dtype, "same_kind")
    return type(known) in KINDS and numpy.result_type(dtype, known) == dtype


def _check_writable(tx: Any, array: NdarrayVariable) -> None:
    """Torch counts writes into tensors, and looks at the count in backward passes; numpy tells it of none."""
    found = tx.graph.all_in_storage(array.fake)
    of_tensors = not all(each.is_array for each in found)
    if of_tensors or any(each.fake.requires_grad for each in tx.attempt.fakes.values()):
        unsupported(UnsupportedOperation("a write", "a numpy array, beside tensors that tell of writes"))
    if array.scalar:
        unsupported(UnsupportedOperation("a write", "a numpy scalar"))


def _apart(tx: Any, value: Any, array: NdarrayVariable) -> VariableTracker:
    """What is written into an array, which may be a part of it."""
    value = _for_graph(tx, value)
    is_part = isinstance(value, TensorVariable) and same_memory(value.fake, array.fake)
    return record(tx, "call_method", "clone", [value], {}) if is_part else value


def _fill(tx: Any, array: NdarrayVariable, value: VariableTracker) -> VariableTracker:
    write(tx, array, ConstantVariable(...), value)
    return ConstantVariable(None)


def _sort(tx: Any, array: NdarrayVariable, axis: VariableTracker | None = None) -> VariableTracker:
    target = function_of_torch(numpy.sort)
    assert target is not None
    array.hold(tx, call(tx, target, numpy.sort, [array], {} if axis is None else {"axis": axis}))
    return ConstantVariable(None)


ON_ARRAYS: dict[Any, Callable[..., VariableTracker]] = {"fill": _fill, "sort": _sort, numpy.copyto: _fill}
"""Methods and functions whose first argument is an array, and how they are traced then."""


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
        key = target.__name__, tuple(trial.dtype for _, trial in self.arrays)
        if key in _COMPUTED and self.arrays:
            return
        with unset_fake_temporarily(), torch._C.DisableTorchFunction():
            found = target(*for_torch(args), **for_torch(named))
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
                other = gives_other_items(target, real, for_torch, args, named, unknown)
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


def _ones_like(variable: NdarrayVariable, size: Callable[[Any], int]) -> Any:
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


def _for_graph(tx: Any, variable: VariableTracker) -> VariableTracker:
    """Types of items by name, scalars as tensors."""
    variable = variable.realize()
    if isinstance(variable, NdarrayVariable):
        return variable.items(tx)
    parts = variable.contained()
    if parts is not None and _holds_array(variable):
        return variable.with_contained(tx, iter([_for_graph(tx, part) for part in parts]))
    if parts is not None or isinstance(variable, (ShapeNumber, SliceVariable)):  # to ask what is known settles numbers
        return variable
    known = variable.as_constant() if variable.is_constant() else None
    if isinstance(known, numpy.dtype) or any(known is each for each in KINDS):
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
    sources = [(variable.fake, trial) for variable, trial in tried.arrays if isinstance(trial, numpy.ndarray)]
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
    array = args[0].realize() if args else None
    if function in ON_ARRAYS and isinstance(array, NdarrayVariable) and not array.scalar:
        return call_handler(ON_ARRAYS[function], (tx, *args), kwargs, function.__name__)
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
        target = STACK
    if target is None or not (arrays or creates):
        unsupported(UnsupportedOperation(f"numpy.{function.__name__}()", "these arguments"))
    return call(tx, target, function, args, kwargs)


_CREATORS = frozenset(
    {numpy.array, numpy.asarray, numpy.zeros, numpy.ones, numpy.full, numpy.arange, numpy.linspace, numpy.eye}
)


def _holds_array(variable: VariableTracker) -> bool:
    variable = variable.realize()
    return isinstance(variable, NdarrayVariable) or any(map(_holds_array, variable.contained() or ()))


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
