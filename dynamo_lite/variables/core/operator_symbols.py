"""Python's operators by symbol: the function of the module ``operator``, and the special method, of each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

Binary = Callable[[Any, Any], Any]

_ARITHMETIC = {
    **{"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul"},
    **{"&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift"},
}
_COMPARISONS = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_NAMES = _ARITHMETIC | _COMPARISONS

BINARY: dict[str, Binary] = {symbol: getattr(operator, f"__{name}__") for symbol, name in _ARITHMETIC.items()}
INPLACE: dict[str, Binary] = {symbol: getattr(operator, f"__i{name}__") for symbol, name in _ARITHMETIC.items()}
COMPARE: dict[str, Binary] = {symbol: getattr(operator, f"__{name}__") for symbol, name in _COMPARISONS.items()}
SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The comparison with its operands exchanged."""
UNARY: dict[str, Callable[[Any], Any]] = {
    "-": operator.neg,
    "+": operator.pos,
    "~": operator.invert,
    "abs": operator.abs,
}


class OperatorMethod(NamedTuple):
    """What a special method of an operator does. ``prefix``: as in `method_of`."""

    symbol: str
    prefix: str
    is_comparison: bool


def method_of(symbol: str, prefix: str = "") -> str:
    """The special method of a binary operator. ``prefix``: ``r`` for the reflected one, ``i`` for the one in place."""
    return f"__{prefix}{_NAMES[symbol]}__"


OPERATOR_METHODS: dict[str, OperatorMethod] = {
    **{method_of(symbol): OperatorMethod(symbol, "", True) for symbol in _COMPARISONS},
    **{
        method_of(symbol, prefix): OperatorMethod(symbol, prefix, False)
        for symbol in _ARITHMETIC
        for prefix in ("", "r", "i")
    },
}
"""The special methods of comparisons and binary operators, by name."""
