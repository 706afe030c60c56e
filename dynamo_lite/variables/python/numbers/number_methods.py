"""Methods of integers and floats by their names: the operators and functions that call them, which numbers that are not
known have without them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE, method_of
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.containers.sequence import TupleVariable

Method = Callable[..., VariableTracker | None]
_NUMBERS: dict[type, tuple[type, ...]] = {int: (int, bool), float: (float, int, bool)}
"""The types of the other operand that a type's methods take."""


def _with_known_type(method: Method) -> Method:
    """A method that leaves what is no such number to the other operand."""

    def call(tx: Translator, number: VariableTracker, other: VariableTracker) -> VariableTracker | None:
        if other.python_type() not in _NUMBERS[number.python_type()]:
            return ConstantVariable(NotImplemented)
        return method(tx, number, other)

    return call


def _binary(symbol: str, reflected: bool) -> Method:
    def call(tx: Translator, number: VariableTracker, other: VariableTracker) -> VariableTracker:
        found: VariableTracker = tx.binary(symbol, *((other, number) if reflected else (number, other)))
        return found

    return _with_known_type(call)


def _compare(symbol: str) -> Method:
    return _with_known_type(lambda tx, number, other: tx.compare(symbol, number, other))


def _unary(symbol: str) -> Method:
    return lambda tx, number: tx.unary(symbol, number)


def _converted(function: Callable[..., Any]) -> Method:
    return lambda tx, number: number.converted(tx, function, ())


def _called(function: Callable[..., Any], reflected: bool = False) -> Method:
    def call(tx: Translator, number: VariableTracker, other: VariableTracker) -> VariableTracker:
        found: VariableTracker = tx.call(tx.make(function), [other, number] if reflected else [number, other], {})
        return found

    return call


def _ratio(tx: Translator, number: VariableTracker) -> VariableTracker | None:
    return TupleVariable([number, ConstantVariable(1)]) if number.python_type() is int else None


def _is_integer(tx: Translator, number: VariableTracker) -> VariableTracker | None:
    if number.python_type() is int:
        return ConstantVariable(True)
    if not tx.truth(number.converted(tx, math.isfinite, ())):
        return ConstantVariable(False)
    found: VariableTracker = tx.compare("==", number.converted(tx, math.floor, ()), number)
    return found


OF_ONE: dict[str, Method] = {
    **{f"__{name}__": _unary(symbol) for name, symbol in [("neg", "-"), ("pos", "+"), ("invert", "~"), ("abs", "abs")]},
    **{f"__{function.__name__}__": _converted(function) for function in (math.trunc, math.floor, math.ceil, round)},
    **{"__int__": _converted(int), "__index__": _converted(int), "__float__": _converted(float)},
    **{name: _converted(getattr(int, name)) for name in ("bit_length", "bit_count")},
    "__bool__": lambda tx, number: ConstantVariable(tx.truth(number)),
    "__str__": lambda tx, number: number.text(tx, "__str__"),
    "__repr__": lambda tx, number: number.text(tx, "__repr__"),
    "conjugate": lambda tx, number: number,
    "as_integer_ratio": _ratio,
    "is_integer": _is_integer,
}
"""Methods without arguments."""
OF_TWO: dict[str, Method] = {
    **{method_of(symbol): _binary(symbol, False) for symbol in BINARY},
    **{method_of(symbol, "r"): _binary(symbol, True) for symbol in BINARY},
    **{method_of(symbol): _compare(symbol) for symbol in COMPARE},
    "__divmod__": _with_known_type(_called(divmod)),
    "__rdivmod__": _with_known_type(_called(divmod, reflected=True)),
    "__round__": _called(round),
    "__format__": lambda tx, number, spec: number.format(tx, spec) if spec.python_type() is str else None,
}
"""Methods of one argument."""


def called_on(
    tx: Translator, number: VariableTracker, name: str, args: list[VariableTracker]
) -> VariableTracker | None:
    """What the method returns; None where that hangs on the number."""
    method = (OF_ONE, OF_TWO)[len(args)].get(name) if len(args) < 2 else None
    if method is None or not hasattr(number.python_type(), name):
        return None
    return method(tx, number, *[each.realize() for each in args])
