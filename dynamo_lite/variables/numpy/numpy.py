"""numpy: arrays as tensors of the graph, whose operations are those of ``torch._numpy``.

An operation is recorded if a trial (`numpy_trials`) shows that torch's result has the type, shape and strides of
numpy's, and shares memory with the same arguments. Otherwise the graph breaks. The numbers are torch's, as they are for
torch's own operators under a compiler: rounding, the order of sums, the sign of zeros and the payload of NaN may differ
from numpy's, and no floating-point error is reported.
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch._numpy

from dynamo_lite.insight.break_reasons import DataDependentValue, FailureAndWrite, UnsupportedOperation
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable, class_lookup
from dynamo_lite.variables.core.base import Args, Exhausted, Kwargs, VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import Model, models_raw
from dynamo_lite.variables.python.containers.iterator import GetItemIterator
from dynamo_lite.variables.python.containers.sequence import ListVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.functions.c_callable import BuiltinVariable
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .scalars import SCALARS, NumpyScalarVariable, has_array, is_cast, known_result
from .targets import (
    BY_OPERATOR,
    KINDS,
    SETITEM,
    STACK,
    attribute,
    call_method,
    function_of_torch,
    laid_out,
    method,
    numpy_dtype,
    read,
    same_memory,
)
from .trials import ArrayVariable, Trial, try_call, try_write

# -- arrays ------------------------------------------------------------------------------------------------------------


class NdarrayVariable(ArrayVariable):
    """What arrays do."""

    __slots__ = ()

    def as_tensor_operand(
        self, tx: Translator, tensor: VariableTracker, symbol: str, reflected: bool = False
    ) -> VariableTracker:
        """Of the tensor's type, which the number is cast to by arithmetic of single and double precision."""
        assert isinstance(tensor, TensorVariable)
        other = tensor.fake.dtype
        if not self.scalar or not is_cast(numpy_dtype(self.fake.dtype), other, symbol, reflected):
            return self
        return record(tx, "call_method", "to", [self.memory, ConstantVariable(other)], {})

    def truth(self, tx: Translator) -> bool:
        unsupported(DataDependentValue("the truth of a numpy array"))

    def length(self, tx: Translator) -> int:
        if not self.fake.ndim:
            tx.raise_error(TypeError, "len() of unsized object")
        return self.fake.shape[0]

    def iterate(self, tx: Translator) -> VariableTracker:
        self.length(tx)
        return ArrayIterator(self)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        fake = self.fake
        facts = {"shape": tuple(fake.shape), "ndim": fake.ndim, "size": fake.numel(), "dtype": numpy_dtype(fake.dtype)}
        facts |= {"itemsize": fake.itemsize, "nbytes": fake.numel() * fake.itemsize}
        if name in facts:
            return tx.make(facts[name])
        if name == "strides" and min(fake.shape, default=2) > 1:  # of others they may be anything
            return tx.make(tuple(stride * fake.itemsize for stride in fake.stride()))
        if name in ("T", "real", "imag"):
            return call(tx, attribute(name), functools.partial(read, name), [self], {})
        if callable(class_lookup(numpy.ndarray, name)) and not name.startswith("__"):
            return BuiltinMethodVariable(self, name)
        return super().getattr(tx, name)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("item", "tolist"):
            unsupported(DataDependentValue(f"numpy.ndarray.{name}()"))
        if name not in _METHODS:
            unsupported(UnsupportedOperation(f"the method {name}()", "a numpy array"))
        return call(tx, method(name), functools.partial(call_method, name), [self, *args], kwargs)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        parts = _parts(key)
        if any(isinstance(part, SliceVariable) and _goes_back(part) for part in parts):
            unsupported(UnsupportedOperation("indexing with a negative step", "an array: torch has no such view, it"))
        if any(isinstance(part, NdarrayVariable) and part.scalar for part in parts):
            unsupported(UnsupportedOperation("indexing", "an array with a numpy scalar that the data decide"))
        if _holds_array(key):
            _may_be_out_of_range(tx)
        return call(tx, BY_OPERATOR["getitem"], operator.getitem, [self, key], {})

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        return self._with(tx, BINARY[symbol], other, reflected)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self._with(tx, COMPARE[symbol], other, False)

    def _with(self, tx: Translator, function: Any, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if self.scalar and isinstance(other, TensorVariable):
            return None
        if not isinstance(other, (NdarrayVariable, ConstantVariable, NumpyScalarVariable)):
            unsupported(UnsupportedOperation(f"{function.__name__}()", f"an array and {other.describe()}"))
        args: Args = [other, self] if reflected else [self, other]
        return call(tx, BY_OPERATOR[function.__name__], function, args, {})

    def unary(self, tx: Translator, function: Any) -> VariableTracker:
        return call(tx, BY_OPERATOR[function.__name__], function, [self], {})

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if self.scalar:
            return None
        return self.hold(tx, self.binary(tx, symbol, other))

    def hold(self, tx: Translator, found: VariableTracker | None) -> VariableTracker:
        """Write a result of this array's shape into it."""
        if not isinstance(found, NdarrayVariable) or found.fake.shape != self.fake.shape:
            unsupported(UnsupportedOperation("a write", "a numpy array, which can't hold the result"))
        _check_write(tx, self, found)
        record(tx, "call_method", "copy_", [self.memory, _apart(tx, found, self)], {})
        return self

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        """If a trial shows that torch's version writes the same."""
        value = value.realize()
        _check_write(tx, self, value)
        parts = [part for part in _parts(key) if isinstance(part, (NdarrayVariable, ListVariable))]
        if parts and not _is_number(value) or any(isinstance(part, NdarrayVariable) and part.scalar for part in parts):
            # Of several numbers that are written to one place numpy keeps the last, and torch any.
            unsupported(
                UnsupportedOperation("a write", "several numbers to items of an array that arrays or lists select")
            )
        for factor in (1, 2) if tx.graph.symbols.has_symbols else (1,):
            try_write(tx, [self, key, value], factor)
        if parts:
            _may_be_out_of_range(tx, [self])
        record(tx, "call_function", SETITEM, [self.memory, _for_graph(tx, key), _apart(tx, value, self)], {})

    def reconstruct(self, cg: Codegen) -> None:
        cg.call(_scalar_of if self.scalar else _array_of, [lambda: cg.load(self.memory)])


class ArrayIterator(GetItemIterator):
    """Items are read when they are asked for: writes into the array meanwhile are seen."""

    __slots__ = ()

    def next(self, tx: Translator) -> VariableTracker:
        if self.at >= self.of.length(tx):
            raise Exhausted
        return super().next(tx)

    def reconstruct(self, cg: Codegen) -> None:
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


def call(tx: Translator, target: Any, real: Callable[..., Any], args: Args, kwargs: Kwargs) -> VariableTracker:
    """Record ``target``, which stands for numpy's ``real``, if a trial shows that it is the same."""
    out = kwargs.get("out")
    if isinstance(real, numpy.ufunc) and isinstance(out, NdarrayVariable):
        return out.hold(tx, call(tx, target, real, args, {name: kwargs[name] for name in kwargs if name != "out"}))
    if out is not None or "where" in kwargs:
        unsupported(UnsupportedOperation("a numpy function with out= or where=", "arrays"))
    if not {*numpy.geterr().values()} <= {"ignore", "warn"}:
        unsupported(UnsupportedOperation("a numpy function", "arrays, under numpy.errstate that reports errors,"))
    expected, trial = try_call(tx, target, real, args, kwargs, 1)
    for each, ones in trial.arrays:
        if expected is ones and not isinstance(ones, numpy.bool_):  # of which there are two objects in all
            return each
    if trial.name in _INDEXING:
        _may_be_out_of_range(tx)
    given = [_for_graph(tx, arg) for arg in args]
    found = record(tx, "call_function", target, given, {name: _for_graph(tx, value) for name, value in kwargs.items()})
    paired = _paired(tx, expected, found, trial)
    if tx.graph.symbols.has_symbols:  # numpy must do the same at other sizes
        other, trial = try_call(tx, target, real, args, kwargs, 2)
        _paired(tx, other, found, trial)
    return paired


_INDEXING = frozenset({"take", "take_along_axis"})
"""Functions that raise where an index is out of range. (Such as `getitem` too.)"""


def _may_be_out_of_range(tx: Translator, written: Args = ()) -> None:
    """The graph raises if an index is out of range. Then CPython runs the frame again, and numpy raises its error."""
    if not tx.graph.can_restore_inputs([each.fake for each in written]):
        unsupported(FailureAndWrite("indexing of a numpy array"))
    tx.graph.fails_handled = True


def _parts(key: VariableTracker) -> Args:
    return [part.realize() for part in (key.items if isinstance(key, TupleVariable) else [key])]


def _goes_back(part: SliceVariable) -> bool:
    step = part.parts[2].realize()
    return isinstance(step, ConstantVariable) and type(step.value) is int and step.value < 0


def _is_number(value: VariableTracker) -> bool:
    if isinstance(value, NdarrayVariable):
        return value.fake.ndim == 0
    return value.is_constant() and not isinstance(value, (ListVariable, TupleVariable))


def _check_write(tx: Translator, array: NdarrayVariable, value: VariableTracker) -> None:
    """Torch counts writes into tensors, and checks the count in backward passes; numpy's aren't counted."""
    found = tx.graph.all_in_storage(array.fake)
    of_tensors = not all(each.is_array for each in found)
    if of_tensors or any(each.fake.requires_grad for each in tx.attempt.values.fakes.values()):
        unsupported(UnsupportedOperation("a write", "a numpy array, beside tensors that count writes"))
    if array.scalar:
        unsupported(UnsupportedOperation("a write", "a numpy scalar"))
    if not _can_cast(value, array):
        unsupported(UnsupportedOperation("a write", f"a numpy array, which can't hold {value.describe()}"))


def _can_cast(value: Any, array: NdarrayVariable) -> bool:
    """Whether an array takes these items as numbers of its own kind."""
    dtype = numpy_dtype(array.fake.dtype)
    if isinstance(value, NdarrayVariable):
        return numpy.can_cast(numpy_dtype(value.fake.dtype), dtype, "same_kind")
    known = value.as_constant() if value.is_constant() else None
    if isinstance(known, (list, tuple)):
        return bool(known) and all(
            type(each) in (int, float) and numpy.result_type(dtype, each) == dtype for each in known
        )
    if isinstance(known, SCALARS):
        return numpy.can_cast(known.dtype, dtype, "same_kind")
    return type(known) in KINDS and numpy.result_type(dtype, known) == dtype


def _apart(tx: Translator, value: Any, array: NdarrayVariable) -> VariableTracker:
    """What is written into an array, of which it may be a part."""
    value = _for_graph(tx, value)
    is_part = isinstance(value, TensorVariable) and same_memory(value.fake, array.fake)
    return record(tx, "call_method", "clone", [value], {}) if is_part else value


def _for_graph(tx: Translator, variable: VariableTracker) -> VariableTracker:
    """Types of items by name, scalars as tensors."""
    variable = variable.realize()
    if isinstance(variable, NdarrayVariable):
        return variable.memory
    parts = variable.structure_items()
    if parts is not None and _holds_array(variable):
        return variable.with_structure_items(tx, iter([_for_graph(tx, part) for part in parts]))
    if parts is not None or isinstance(variable, (SymNodeVariable, SliceVariable)):  # `as_constant` specializes numbers
        return variable
    known = variable.as_constant() if variable.is_constant() else None
    if isinstance(known, numpy.dtype) or any(known is each for each in KINDS):
        return ConstantVariable(numpy.dtype(known).name)
    return variable


def _paired(tx: Translator, expected: Any, found: VariableTracker, trial: Trial) -> VariableTracker:
    """The result that was recorded, as the kind of value that numpy returned."""
    found = found.realize()
    if isinstance(expected, (list, tuple)):
        items = [*(found.structure_items() or ())]
        if len({*map(id, expected)}) < len(expected):
            trial.differs("several objects for one")
        if len(items) == len(expected):
            paired = [_paired(tx, one, item, trial) for one, item in zip(expected, items)]
            return ListVariable(paired) if type(expected) is list else TupleVariable(paired)
    elif not isinstance(expected, (numpy.ndarray, *SCALARS)):
        known = found.as_constant() if found.is_constant() else None
        if type(expected) is type(known) and expected == known:
            return found
    elif isinstance(found, TensorVariable):
        given = [each for each, ones in trial.arrays if expected is ones and isinstance(ones, numpy.ndarray)]
        return given[0] if given else _paired_array(tx, expected, found, trial)
    trial.differs(f"{found.describe()} for {type(expected).__name__}")


def _paired_array(tx: Translator, expected: Any, found: TensorVariable, trial: Trial) -> VariableTracker:
    dtype, shape = found.fake.dtype, trial.sizes(found.fake.shape)
    if numpy_dtype(dtype) != expected.dtype or shape != expected.shape:
        trial.differs(f"{dtype} of {shape} for {expected.dtype} of {expected.shape}")
    shares, is_view = set(), False
    for variable, ones in trial.arrays:
        if isinstance(ones, numpy.ndarray):
            is_shared = same_memory(variable.fake, found.fake)
            is_view = is_view or is_shared
            if numpy.shares_memory(expected, ones):
                shares.add(is_shared)
    if False in shares:
        trial.differs("a copy for a view")
    if is_view and not shares:
        found = record(tx, "call_method", "clone", [found], {})  # type: ignore[assignment]
    if isinstance(expected, SCALARS):
        return NdarrayVariable(found, True)
    if not (shares or tx.graph.symbols.has_symbols or _is_laid_out(expected, found, trial)):
        axes = sorted(range(expected.ndim), key=lambda axis: -expected.strides[axis])
        found = record(tx, "call_function", laid_out, [found, tx.make(axes)], {})  # type: ignore[assignment]
    if not _is_laid_out(expected, found, trial):
        steps = [stride * found.fake.itemsize for stride in found.fake.stride()]
        trial.differs(f"strides {steps} for {[*expected.strides]}")
    return NdarrayVariable(found)


def _is_laid_out(expected: Any, found: TensorVariable, trial: Trial) -> bool:
    sizes, strides = (trial.sizes(numbers) for numbers in (found.fake.shape, found.fake.stride()))
    layout = [stride * found.fake.itemsize for size, stride in zip(sizes, strides) if size > 1]
    wanted = [stride for size, stride in zip(expected.shape, expected.strides) if size > 1]
    return layout == wanted or not math.prod(sizes)


# -- functions ---------------------------------------------------------------------------------------------------------


class NumpyFunctionVariable(BuiltinVariable):
    """A function of numpy's."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        return call_function(tx, self.value, args, kwargs)


def call_function(tx: Translator, function: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """One of numpy's functions: on known values numpy's own, on arrays torch's."""
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
    return isinstance(variable, NdarrayVariable) or any(map(_holds_array, variable.structure_items() or ()))


def _is_row_of_arrays(variable: VariableTracker) -> bool:
    parts = variable.realize().structure_items()
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
