"""numpy: arrays as tensors of the graph, with the operations of ``torch._numpy``.

An operation is recorded if a trial (`trials`) shows that torch's result has numpy's dtype, shape and strides, and
shares memory with the same arguments. Otherwise the graph breaks. The values are torch's: rounding, the order of sums,
the sign of zeros and the payload of NaN may differ from numpy's, and no floating-point error is reported.
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy
import torch
import torch._numpy

from dynamo_lite.insight.break_reasons import (
    DataDependentValue,
    NumpyCall,
)
from dynamo_lite.plan.rows import Value
from dynamo_lite.runtime.shared_memory import share_memory
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable, class_lookup
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE
from dynamo_lite.variables.core.registry import Model, models_if, models_raw
from dynamo_lite.variables.python.containers.iterators import GetitemIterator
from dynamo_lite.variables.python.containers.sequences import ListVariable, SliceVariable, TupleVariable
from dynamo_lite.variables.python.containers.structures import structure_leaves
from dynamo_lite.variables.python.numbers.symbolic import SymNodeVariable
from dynamo_lite.variables.torch.tensors.tensor import TensorVariable, record

from .node_targets import (
    BY_OPERATOR,
    ITEM_TYPES,
    attribute,
    call_method,
    function_of_torch,
    method,
    numpy_dtype,
)
from .scalars import SCALARS, NumpyScalarVariable, call_numpy, has_array, is_cast
from .trials import ArrayVariable, Trial, try_call
from .writes import assign, assign_in_place, check_indices_at_run_time, has_negative_step, indices_of

# -- arrays ------------------------------------------------------------------------------------------------------------


class NdarrayVariable(ArrayVariable):
    """A numpy array, or a numpy scalar that depends on data."""

    __slots__ = ()

    def as_tensor_operand(
        self, tx: Translator, tensor: VariableTracker, symbol: str, reflected: bool = False
    ) -> VariableTracker:
        """A scalar beside a tensor, converted to the tensor's dtype if the operator converts it."""
        assert isinstance(tensor, TensorVariable)
        other = tensor.fake.dtype
        if not self.scalar or not is_cast(numpy_dtype(self.fake.dtype), other, symbol, reflected):
            return self
        return record(tx, "to", [self.memory, ConstantVariable(other)], {})

    def truth(self, tx: Translator) -> bool:
        unsupported(DataDependentValue("the truth of a numpy array"))

    def index(self, tx: Translator, message: str) -> NoReturn:
        unsupported(DataDependentValue("a numpy array as an integer"))

    def as_fx(self) -> tuple[Any, Any]:
        if self.scalar:
            unsupported(DataDependentValue("an operator that takes a numpy scalar as a number"))
        return super().as_fx()

    def length(self, tx: Translator) -> int:
        if not self.fake.ndim:
            tx.raise_error(TypeError, "len() of unsized object")
        return self.fake.shape[0]

    def iterate(self, tx: Translator) -> VariableTracker:
        return GetitemIterator(self) if self.fake.ndim else super().iterate(tx)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        fake = self.fake
        count, itemsize, dtype = fake.numel(), fake.itemsize, numpy_dtype(fake.dtype)
        metadata: dict[str, Any] = {"shape": tuple(fake.shape), "ndim": fake.ndim, "size": count, "dtype": dtype}
        metadata |= {"itemsize": itemsize, "nbytes": count * itemsize}
        if name in metadata:
            return tx.make(metadata[name])
        if name == "strides" and min(fake.shape, default=2) > 1:  # the stride of a dimension of size 1 may be any
            return tx.make(tuple(stride * fake.itemsize for stride in fake.stride()))
        if name in ("T", "real", "imag"):
            return call(tx, attribute(name), operator.attrgetter(name), [self], {})
        if callable(class_lookup(numpy.ndarray, name)) and not name.startswith("__"):
            return BuiltinMethodVariable(self, name)
        return super().getattr(tx, name)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("item", "tolist"):
            unsupported(DataDependentValue(f"numpy.ndarray.{name}()"))
        if name not in _METHODS:
            unsupported(NumpyCall(f"numpy.ndarray.{name}()", "torch has no version of it that does the same"))
        return call(tx, method(name), functools.partial(call_method, name), [self, *args], kwargs)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        if type(key) is ConstantVariable and type(key.value) is int and self.fake.ndim:
            size = self.fake.shape[0]
            if not -size <= key.value < size:
                tx.raise_error(IndexError, f"index {key.value} is out of bounds for axis 0 with size {int(size)}")
        indices = indices_of(key)
        if any(map(has_negative_step, indices)):
            unsupported(NumpyCall("numpy's indexing", "torch's version gives no views with negative steps"))
        if any(isinstance(each, NdarrayVariable) and each.scalar for each in indices):
            unsupported(DataDependentValue("indexing by a numpy scalar"))
        if _has_array(key):
            check_indices_at_run_time(tx.graph)
        return call(tx, BY_OPERATOR["getitem"], operator.getitem, [self, key], {})

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        return self._call_operator(tx, BINARY[symbol], other, reflected)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self._call_operator(tx, COMPARE[symbol], other, False)

    def _call_operator(
        self, tx: Translator, function: Callable[..., Any], other: VariableTracker, reflected: bool
    ) -> VariableTracker | None:
        if self.scalar and isinstance(other, TensorVariable):
            return None
        if not isinstance(other, (NdarrayVariable, ConstantVariable, NumpyScalarVariable)):
            unsupported(NumpyCall(f"numpy's {function.__name__}", f"the other operand is {other.describe()}"))
        args: Args = [other, self] if reflected else [self, other]
        return call(tx, BY_OPERATOR[function.__name__], function, args, {})

    def unary(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker:
        return call(tx, BY_OPERATOR[function.__name__], function, [self], {})

    def inplace(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if self.scalar:
            return None
        assign_in_place(tx, self, tx.binary(symbol, self, other))
        return self

    def setitem(self, tx: Translator, key: VariableTracker, value: VariableTracker) -> None:
        assign(tx, self, key, value)

    def construct(self, plan: Planner) -> Value:
        return plan.call(_scalar_of if self.scalar else torch.Tensor.numpy, self.memory)


def _scalar_of(tensor: torch.Tensor) -> Any:
    return tensor.numpy()[()]


_METHODS = frozenset(
    {"all", "any", "argmax", "argmin", "argsort", "astype", "clip", "conj", "copy", "cumprod", "cumsum", "diagonal"}
    | {"dot", "flatten", "max", "mean", "min", "prod", "ravel", "repeat", "reshape", "round", "squeeze", "std", "sum"}
    | {"swapaxes", "take", "trace", "transpose", "var"}
)
"""Methods that return a new array or a view."""


# -- recording ---------------------------------------------------------------------------------------------------------


def call(
    tx: Translator, target: Callable[..., Any], real: Callable[..., Any], args: Args, kwargs: Kwargs
) -> VariableTracker:
    """Record a call of ``target``, torch's version of numpy's ``real``, if its result in a trial is like numpy's."""
    if "out" in kwargs or "where" in kwargs:
        unsupported(NumpyCall(f"numpy's {target.__name__}", "it is given out= or where="))
    if not {*numpy.geterr().values()} <= {"ignore", "warn"}:
        unsupported(NumpyCall(f"numpy's {target.__name__}", "numpy.errstate makes it raise or call"))
    expected, trial = try_call(tx, target, real, args, kwargs, 1)
    for each, ones in trial.arrays:
        if expected is ones and not isinstance(ones, numpy.bool_):  # the two numpy.bool_ objects are shared
            return each
    if trial.name in _INDEXING:
        check_indices_at_run_time(tx.graph)
    given = [_for_graph(tx, arg) for arg in args]
    named = {name: _for_graph(tx, value) for name, value in kwargs.items()}
    recorded = record(tx, target, given, named)
    result = _checked(tx, expected, recorded, trial)
    if tx.graph.symbols.has_symbols:  # numpy must do the same at other sizes
        other, trial = try_call(tx, target, real, args, kwargs, 2)
        _checked(tx, other, recorded, trial)
    return result


_INDEXING = frozenset({"take", "take_along_axis"})
"""Functions that raise if an index is out of range, as `getitem` does."""


def _for_graph(tx: Translator, variable: VariableTracker) -> VariableTracker:
    """An argument of a node: arrays as tensors, dtypes by name."""
    variable = variable.realize()
    if isinstance(variable, NdarrayVariable):
        return variable.memory
    items = variable.structure_items()
    if items is not None and _has_array(variable):
        return variable.builtin_part().with_structure_items(tx, iter([_for_graph(tx, item) for item in items]))
    if items is not None or isinstance(variable, (SymNodeVariable, SliceVariable)):  # `as_constant` specializes numbers
        return variable
    constant = variable.as_constant() if variable.is_constant() else None
    if isinstance(constant, numpy.dtype) or any(constant is each for each in ITEM_TYPES):
        return ConstantVariable(numpy.dtype(constant).name)
    return variable


def _checked(tx: Translator, expected: object, recorded: VariableTracker, trial: Trial) -> VariableTracker:
    """The recorded result as an array, a scalar or a sequence of these, as ``expected``, which numpy returned."""
    recorded = recorded.realize()
    if isinstance(expected, (list, tuple)):
        items = [*(recorded.structure_items() or ())]
        if len({*map(id, expected)}) < len(expected):
            trial.differs("several objects instead of one")
        if len(items) == len(expected):
            checked = [_checked(tx, one, item, trial) for one, item in zip(expected, items)]
            return ListVariable(checked) if type(expected) is list else TupleVariable(checked)
    elif not isinstance(expected, (numpy.ndarray, *SCALARS)):
        constant = recorded.as_constant() if recorded.is_constant() else None
        if type(expected) is type(constant) and expected == constant:
            return recorded
    elif isinstance(recorded, TensorVariable):
        given = [each for each, ones in trial.arrays if expected is ones and isinstance(ones, numpy.ndarray)]
        return given[0] if given else _checked_array(tx, expected, recorded, trial)
    trial.differs(f"{recorded.describe()} instead of {type(expected).__name__}")


def _checked_array(tx: Translator, expected: Any, recorded: TensorVariable, trial: Trial) -> VariableTracker:
    dtype, shape = recorded.fake.dtype, trial.sizes(recorded.fake.shape)
    if dtype is torch.complex32 or numpy_dtype(dtype) != expected.dtype or shape != expected.shape:
        trial.differs(f"{dtype} of shape {shape} instead of {expected.dtype} of shape {expected.shape}")
    arrays = [(variable, ones) for variable, ones in trial.arrays if isinstance(ones, numpy.ndarray)]
    aliased = {id(variable) for variable, _ in arrays if share_memory(variable.fake, recorded.fake)}
    expected_aliased = {id(variable) for variable, ones in arrays if numpy.shares_memory(expected, ones)}
    if not expected_aliased <= aliased:
        trial.differs("a copy instead of a view")
    if aliased and not expected_aliased:
        cloned = record(tx, "clone", [recorded], {})
        assert isinstance(cloned, TensorVariable)
        recorded = cloned
    if isinstance(expected, SCALARS):
        return NdarrayVariable(recorded, True)
    if not _has_strides(expected, recorded, trial):
        steps = [stride * recorded.fake.itemsize for stride in recorded.fake.stride()]
        trial.differs(f"strides {steps} instead of {[*expected.strides]}")
    return NdarrayVariable(recorded)


def _has_strides(expected: Any, recorded: TensorVariable, trial: Trial) -> bool:
    """Whether the recorded result has numpy's strides in each dimension with more than one item."""
    sizes, strides = (trial.sizes(numbers) for numbers in (recorded.fake.shape, recorded.fake.stride()))
    layout = [stride * recorded.fake.itemsize for size, stride in zip(sizes, strides) if size > 1]
    wanted = [stride for size, stride in zip(expected.shape, expected.strides) if size > 1]
    return layout == wanted or not math.prod(sizes)


# -- functions ---------------------------------------------------------------------------------------------------------


def _call_function(tx: Translator, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call numpy on constants, and torch's version of the function on arrays."""
    everything = [*args, *kwargs.values()]
    has_arrays = any(map(_has_array, everything))
    creates = function in _CREATORS
    if not has_arrays and not creates and all(map(tx.is_plain, everything)):
        result = call_numpy(tx, function, *tx.python_values(args, kwargs))
        if not has_array(result):
            return tx.make(result)
        creates = True
    target = function_of_torch(function)
    if function in (numpy.array, numpy.asarray) and len(everything) == 1 and _is_row_of_arrays(everything[0]):
        target = function_of_torch(numpy.stack)
    if target is None or not (has_arrays or creates):
        why = "torch has no version of it" if target is None else "none of its arguments is an array of the graph"
        unsupported(NumpyCall(f"numpy.{function.__name__}()", why))
    return call(tx, target, function, args, kwargs)


_CREATORS: frozenset[Any] = frozenset(
    {numpy.array, numpy.asarray, numpy.zeros, numpy.ones, numpy.full, numpy.arange, numpy.linspace, numpy.eye}
)


def _has_array(variable: VariableTracker) -> bool:
    return any(isinstance(leaf, NdarrayVariable) for leaf in structure_leaves(variable))


def _is_row_of_arrays(variable: VariableTracker) -> bool:
    items = [item.realize() for item in variable.realize().structure_items() or ()]
    return bool(items) and all(isinstance(item, NdarrayVariable) for item in items)


def _model(function: Any) -> Model:
    return lambda tx, args, kwargs: _call_function(tx, function, args, kwargs)


models_if(numpy.ufunc, type(numpy.sum))(_model)
_IN_PYTHON = (
    getattr(numpy, name)
    for name, theirs in vars(torch._numpy).items()
    if isinstance(theirs, types.FunctionType) and isinstance(getattr(numpy, name, None), types.FunctionType)
)
for _function in (*_CREATORS, *SCALARS, *_IN_PYTHON, numpy.dtype, numpy.ascontiguousarray):
    models_raw(_function, _model(_function))
