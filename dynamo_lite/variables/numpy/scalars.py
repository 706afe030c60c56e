"""numpy's scalars, as far as they are constants, and its dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import torch

from dynamo_lite.insight.break_reasons import NumpyCall, OperatorWarns
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.inert import register_inert_types
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_if, wraps_type
from dynamo_lite.variables.torch.functions.torch_functions import InvariantObjectVariable

_DTYPES = [numpy.dtype(code) for code in "?bBhHiIlLqQefdFD"]
SCALARS: tuple[Any, ...] = tuple({dtype.type for dtype in _DTYPES})
register_inert_types(*SCALARS, *map(type, _DTYPES))


class NumpyScalarVariable(InvariantVariable):
    """A constant numpy scalar: numpy computes with it, and torch takes it as a Python number."""

    __slots__ = ()
    is_loaded_as_constant = True
    is_taken_as_number = True

    def as_fx(self) -> tuple[Any, Any]:
        if isinstance(self.value, (numpy.bool_, numpy.complex64)):
            kind = type(self.value).__name__
            unsupported(NumpyCall(f"an operator with a numpy.{kind}", "torch takes it for another value than Python's"))
        return self.value.item(), self.value.item()

    def describe(self) -> str:
        return repr(self.value)

    def truth(self, tx: Translator) -> bool:
        return bool(self.value)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        value = tx.fold(getattr, (self.value, name))
        is_method = callable(value) and name != "__class__"
        return BuiltinMethodVariable(self, name) if is_method else tx.make(value)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return call_for_constant(tx, getattr(self.value, name), *tx.python_values(args, kwargs))

    def _call_operator(
        self, tx: Translator, function: Callable[..., Any], other: VariableTracker, reflected: bool
    ) -> VariableTracker | None:
        if not isinstance(other, (ConstantVariable, NumpyScalarVariable)):
            return None
        pair = [self.value, other.as_constant()]
        return call_for_constant(tx, function, pair[::-1] if reflected else pair, {})

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        if other.python_type() is self.python_type() and not isinstance(other, NumpyScalarVariable):
            return other.binary(tx, symbol, self, not reflected)  # data: it knows how, and is asked no second time
        return self._call_operator(tx, BINARY[symbol], other, reflected)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        return self._call_operator(tx, COMPARE[symbol], other, False)

    def unary(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker | None:
        return call_for_constant(tx, function, [self.value], {})


def call_for_constant(
    tx: Translator, function: Callable[..., Any], args: list[Any], named: dict[str, Any]
) -> VariableTracker:
    """Call numpy on constants. Breaks the graph if the result is an array."""
    result = call_numpy(tx, function, args, named)
    if has_array(result):
        unsupported(NumpyCall("a numpy function of constants", "it makes an array"))
    return tx.make(result)


def call_numpy(tx: Translator, function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
    """Call numpy on constants. Breaks the graph if numpy warns, since eager warns in each call."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return tx.fold(function, args, named)
    except Warning as warning:
        unsupported(OperatorWarns("numpy", str(warning)))


def has_array(value: object) -> bool:
    return isinstance(value, numpy.ndarray) or isinstance(value, (list, tuple)) and any(map(has_array, value))


class DtypeVariable(ConstantVariable):
    """A numpy.dtype, which equals classes and names too."""

    __slots__ = ()

    def identity(self) -> Any:
        return self.value

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not other.is_constant():
            return None
        return tx.make(tx.fold(COMPARE[symbol], (self.value, other.as_constant())))


wraps_if(lambda value: issubclass(type(value), numpy.dtype), order=5)(DtypeVariable.by_identity)


class FloatLimitsVariable(InvariantObjectVariable):
    """A ``numpy.finfo``. numpy keeps one for each dtype."""

    __slots__ = ()

    def identity(self) -> Any:
        return self.value


@models(numpy.finfo)
def _finfo(tx: Translator, dtype: VariableTracker) -> VariableTracker:
    """numpy fills a cache in the first call for a dtype, so the call isn't traced."""
    return FloatLimitsVariable(tx.fold(numpy.finfo, (tx.python_value(dtype),)))


wraps_type(numpy.finfo)(FloatLimitsVariable.by_identity)


def _limit_of_integers(tx: Translator, limits: VariableTracker, name: str) -> VariableTracker:
    """A property of ``numpy.iinfo``: numpy fills a cache when one is first read for a dtype."""
    dtype = tx.python_value(limits.getattr(tx, "dtype"))
    return ConstantVariable(getattr(numpy.iinfo(dtype), name))


for _name in ("min", "max"):
    models(vars(numpy.iinfo)[_name].fget)(partial(_limit_of_integers, name=_name))


def is_cast(kind: Any, dtype: torch.dtype, symbol: str, reflected: bool) -> bool:
    """Whether an operator casts a number of numpy's dtype ``kind`` to the dtype of the tensor beside it."""
    if kind == numpy.uint64:  # torch raises for numbers out of int64's range
        return False
    fits = kind.kind in "iu" and dtype is torch.int64 or kind.kind in "iuf" and dtype in (torch.float32, torch.float64)
    is_reciprocal = reflected and symbol == "/"  # torch multiplies by the tensor's reciprocal
    return fits and symbol not in ("**", "//", "%") and not is_reciprocal
