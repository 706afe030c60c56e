"""Conditions of torch's ``ShapeEnv``, which are sympy expressions, as ones that guards can check.

sympy, and torch's modules that import it, are imported on first use: they are slow to import.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from .expressions import Expression, Symbol, is_checkable


@functools.cache
def sympy_module() -> ModuleType:
    """The module ``sympy``."""
    import sympy

    return sympy


@functools.cache
def symbolic_shapes() -> ModuleType:
    """The module ``torch.fx.experimental.symbolic_shapes``."""
    import torch.fx.experimental.symbolic_shapes as module

    return module


@functools.cache
def integer_infinity() -> Expression:
    """The upper bound of a symbolic size without one."""
    from torch.utils._sympy.numbers import int_oo

    return int_oo


@functools.cache
def printer() -> Any:
    """torch's printer of expressions as Python."""
    from torch.utils._sympy.printers import PythonPrinter

    return PythonPrinter()


def checkable_parts(condition: Expression, hints: dict[Symbol, int]) -> list[Expression]:
    """The condition if a guard program can compute it; otherwise conditions that its symbols equal their hints."""
    if condition == True:  # noqa: E712 - sympy's true is another object than True
        return []
    if is_checkable(condition, hints):
        return [condition]
    sympy = sympy_module()
    return [sympy.Eq(symbol, hints[symbol], evaluate=False) for symbol in condition.free_symbols]
