"""Compiles sympy expressions of torch's ``ShapeEnv`` to postfix programs, for guards in C++ and for graphs.

sympy, and torch's modules that import it, are imported on first use: they are slow to import.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, cast

import torch

Expression = Any
"""An expression of sympy's, which is not typed."""
Symbol = Any
"""A symbol of sympy's: an expression of itself."""

Step = tuple[Any, ...]
"""An instruction of a guard program: its name, then its operands."""


class Operation(NamedTuple):
    """The meaning of one of sympy's classes of expressions."""

    name: str
    """Its name in guard programs."""
    function: Callable[..., Any]
    """The function on torch's symbolic numbers, for graphs."""
    is_in_guards: bool = True
    """Whether guard programs have it. They compute with integers."""
    operands: int = 2


_OPERATIONS = {
    "Add": Operation("add", operator.add),
    "Mul": Operation("mul", operator.mul),
    "FloorDiv": Operation("floordiv", operator.floordiv),
    "CleanDiv": Operation("floordiv", operator.floordiv),
    "Mod": Operation("mod", operator.mod),
    "PythonMod": Operation("mod", operator.mod),
    "Pow": Operation("pow", operator.pow),
    "PowByNatural": Operation("pow", operator.pow),
    "Min": Operation("min", torch.sym_min),
    "Max": Operation("max", torch.sym_max),
    "Equality": Operation("eq", operator.eq),
    "Unequality": Operation("ne", operator.ne),
    "StrictLessThan": Operation("lt", operator.lt),
    "LessThan": Operation("le", operator.le),
    "And": Operation("and", operator.and_),
    "Or": Operation("or", operator.or_),
    "Not": Operation("not", torch.sym_not, operands=1),
    "IntTrueDiv": Operation("truediv", operator.truediv, is_in_guards=False),
    "FloatTrueDiv": Operation("truediv", operator.truediv, is_in_guards=False),
    "FloatPow": Operation("pow", operator.pow, is_in_guards=False),
    "ToFloat": Operation("float", torch.sym_float, is_in_guards=False, operands=1),
    "OpaqueUnaryFn_sqrt": Operation("sqrt", torch.sym_sqrt, is_in_guards=False, operands=1),
    "FloorToInt": Operation("floor", math.floor, is_in_guards=False, operands=1),
    "CeilToInt": Operation("ceil", math.ceil, is_in_guards=False, operands=1),
    "TruncToInt": Operation("trunc", math.trunc, is_in_guards=False, operands=1),
}
"""By the name of sympy's class."""
_REVERSED = frozenset({"StrictGreaterThan", "GreaterThan"})


@functools.cache
def symbolic_shapes() -> ModuleType:
    """The module ``torch.fx.experimental.symbolic_shapes``."""
    import torch.fx.experimental.symbolic_shapes as module

    return module


def hint_of(number: torch.SymInt) -> int:
    """The value that a symbolic int has in the call that is traced. torch's own type of it is wider."""
    return cast(int, number.node.hint)


PYTHON_OPERATORS = {"add": "+", "mul": "*", "floordiv": "//", "mod": "%", "pow": "**", "truediv": "/"}
"""The operations for which generated code has an operator of Python."""
PYTHON_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"min": min, "max": max}
"""The operations for which it calls a function."""


class NoProgram(Exception):
    """An expression has a part for which there is no operation."""


def compile_expression(
    expression: Expression, leaf: Callable[[Symbol], Step], for_guard: bool = True
) -> list[Step | Operation]:
    """The expression in postfix order: numbers as ``("const", number)``, symbols as ``leaf`` returns them, operations.

    Args:
        for_guard: only operations and numbers that guard programs have.

    Raises:
        NoProgram: the expression has another operation or number.
    """
    if expression.is_Symbol:
        return [leaf(expression)]
    if expression.is_Integer or expression.is_Boolean and not expression.args:
        number = int(expression) if expression.is_Integer else int(bool(expression))
        if for_guard and abs(number) > _INT64_MAX:
            raise NoProgram(expression)
        return [("const", number)]
    if expression.is_Float and not for_guard:
        return [("const", float(expression))]
    kind = type(expression).__name__
    if kind in _REVERSED:
        return compile_expression(expression.reversed, leaf, for_guard)
    operation = _OPERATIONS.get(kind)
    if operation is None or (for_guard and not operation.is_in_guards):
        raise NoProgram(expression)
    if kind == "Pow" and not expression.args[1].is_nonnegative:
        raise NoProgram(expression)
    parts = [compile_expression(arg, leaf, for_guard) for arg in expression.args]
    program = list(parts[0])
    for part in parts[1:]:
        program += [*part, operation]
    return [*program, operation] if operation.operands == 1 else program


def is_computable(expression: Expression) -> bool:
    """Whether generated code can compute an expression of integer symbols."""
    try:
        program = compile_expression(expression, lambda symbol: ("symbol", symbol), False)
    except NoProgram:
        return False
    operations = {step.name for step in program if isinstance(step, Operation)}
    return operations <= PYTHON_OPERATORS.keys() | PYTHON_FUNCTIONS.keys()


def is_checkable(expression: Expression, hints: dict[Symbol, int]) -> bool:
    """Whether a guard program computes the expression for the hints of its symbols without leaving 64-bit integers."""
    try:
        program = compile_expression(expression, lambda symbol: ("const", hints.get(symbol, 1)))
    except NoProgram:
        return False
    stack: list[int] = []
    for step in program:
        if isinstance(step, Operation):
            operands = [stack.pop() for _ in range(step.operands)][::-1]
            if step.name in ("floordiv", "mod") and operands[1] in (0, -1):
                return False
            if step.name == "pow" and not 0 <= operands[1] < _BITS:
                return False
            stack.append(int(step.function(*operands)))
        else:
            stack.append(step[1])
        if abs(stack[-1]) > _INT64_MAX:
            return False
    return True


def checkable_parts(condition: Expression, hints: dict[Symbol, int]) -> list[Expression]:
    """The condition if a guard program can compute it; otherwise conditions that its symbols equal their hints."""
    import sympy

    if condition == True:  # noqa: E712 - sympy's true is another object than True
        return []
    if is_checkable(condition, hints):
        return [condition]
    return [sympy.Eq(symbol, hints[symbol], evaluate=False) for symbol in condition.free_symbols]


_BITS = 64
_INT64_MAX = (1 << _BITS - 1) - 1
