"""Methods of symbolic ints and floats (``n.__add__(m)``, ``x.is_integer()``), as the operators and functions that
compute the same without specializing the number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, method_of
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.sequences import TupleVariable

Method = Callable[..., VariableTracker | None]
_OPERAND_TYPES: dict[type, tuple[type, ...]] = {int: (int, bool), float: (float, int, bool)}
"""The operand types for which an int's or a float's binary methods don't return NotImplemented."""


def _check_operand(method: Method) -> Method:
    """Return NotImplemented for operand types that CPython's method rejects."""

    def checked(tx: Translator, number: VariableTracker, other: VariableTracker) -> VariableTracker | None:
        if other.python_type() not in _OPERAND_TYPES[number.python_type()]:
            return ConstantVariable(NotImplemented)
        return method(tx, number, other)

    return checked


def _binary(symbol: str) -> Method:
    return _check_operand(lambda tx, number, other: tx.binary(symbol, number, other))


def _reflected(symbol: str) -> Method:
    return _check_operand(lambda tx, number, other: tx.binary(symbol, other, number))


def _compare(symbol: str) -> Method:
    return _check_operand(lambda tx, number, other: tx.compare(symbol, number, other))


def _unary(symbol: str) -> Method:
    return lambda tx, number: tx.unary(symbol, number)


def _convert(function: Callable[..., Any]) -> Method:
    return lambda tx, number: number.converted(tx, function, ())


def _as_integer_ratio(tx: Translator, number: VariableTracker) -> VariableTracker | None:
    return TupleVariable([number, ConstantVariable(1)]) if number.python_type() is int else None


def _is_integer(tx: Translator, number: VariableTracker) -> VariableTracker:
    if number.python_type() is int:
        return ConstantVariable(True)
    if not tx.truth(number.converted(tx, math.isfinite, ())):
        return ConstantVariable(False)
    return tx.compare("==", number.converted(tx, math.floor, ()), number)


_UNARY_METHODS: dict[str, Method] = {
    **{f"__{name}__": _unary(symbol) for name, symbol in [("neg", "-"), ("pos", "+"), ("invert", "~"), ("abs", "abs")]},
    **{f"__{function.__name__}__": _convert(function) for function in (math.trunc, math.floor, math.ceil, round)},
    **{"__int__": _convert(int), "__index__": _convert(int), "__float__": _convert(float)},
    **{name: _convert(getattr(int, name)) for name in ("bit_length", "bit_count")},
    "__bool__": lambda tx, number: ConstantVariable(tx.truth(number)),
    "__str__": lambda tx, number: number.text(tx, "__str__"),
    "__repr__": lambda tx, number: number.text(tx, "__repr__"),
    "conjugate": lambda tx, number: number,
    "as_integer_ratio": _as_integer_ratio,
    "is_integer": _is_integer,
}
_BINARY_METHODS: dict[str, Method] = {
    **{method_of(symbol): _binary(symbol) for symbol in BINARY},
    **{method_of(symbol, "r"): _reflected(symbol) for symbol in BINARY},
    **{method_of(symbol): _compare(symbol) for symbol in COMPARE},
    "__divmod__": _check_operand(lambda tx, number, other: tx.call(tx.make(divmod), [number, other], {})),
    "__rdivmod__": _check_operand(lambda tx, number, other: tx.call(tx.make(divmod), [other, number], {})),
    "__round__": lambda tx, number, digits: tx.call(tx.make(round), [number, digits], {}),
    "__format__": lambda tx, number, spec: number.format(tx, spec) if spec.python_type() is str else None,
}


def call_number_method(
    tx: Translator, number: VariableTracker, name: str, args: Sequence[VariableTracker]
) -> VariableTracker | None:
    """The result of ``number.name(*args)``, None if it can't be computed without specializing the number."""
    method = (_UNARY_METHODS, _BINARY_METHODS)[len(args)].get(name) if len(args) < 2 else None
    if method is None or not hasattr(number.python_type(), name):
        return None
    return method(tx, number, *[each.realize() for each in args])
