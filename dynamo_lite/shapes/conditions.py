"""Conditions as torch's ``ShapeEnv`` has them, in sympy's terms: their parts that can be checked."""

from __future__ import annotations

import functools
from typing import Any

from .expressions import is_checkable


@functools.cache
def sympy_module() -> Any:
    import sympy

    return sympy


@functools.cache
def symbolic_shapes() -> Any:
    """The module. It brings sympy, which is slow to import."""
    import torch.fx.experimental.symbolic_shapes as found

    return found


@functools.cache
def no_limit() -> Any:
    from torch.utils._sympy.numbers import int_oo

    return int_oo


def integer_roots(expression: Any, symbol: Any) -> list[Any]:
    """The integers for which an expression of one symbol is 0; none where it is no polynomial."""
    polynomial = expression.as_poly(symbol)
    return [] if polynomial is None else [root for root in polynomial.ground_roots() if root.is_Integer]


@functools.cache
def printer() -> Any:
    from torch.utils._sympy.printers import PythonPrinter

    return PythonPrinter()


def checkable_parts(condition: Any, hints: dict[Any, int]) -> list[Any]:
    """The condition, or where there is no program for it that each of its symbols is what it is now."""
    if condition == True:  # noqa: E712 - a sympy truth value is not True
        return []
    if is_checkable(condition, hints):
        return [condition]
    sympy = sympy_module()
    return [sympy.Eq(symbol, hints[symbol], evaluate=False) for symbol in condition.free_symbols]
