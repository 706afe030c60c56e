"""Expressions of torch's ``ShapeEnv`` as programs: in postfix order, for the checks in C++ and for graphs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Step = tuple[Any, ...]
"""An instruction of a symbolic program: its name and operands."""


class Operation(NamedTuple):
    """What a class of sympy's stands for."""

    name: str
    """In programs."""
    function: Callable[..., Any]
    """On torch's symbolic numbers, as graphs have it."""
    is_checked: bool = True
    """Whether symbolic programs have it, which are of integers."""
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
    "IntTrueDiv": Operation("truediv", operator.truediv, is_checked=False),
    "FloatTrueDiv": Operation("truediv", operator.truediv, is_checked=False),
    "FloatPow": Operation("pow", operator.pow, is_checked=False),
    "ToFloat": Operation("float", torch.sym_float, is_checked=False, operands=1),
    "OpaqueUnaryFn_sqrt": Operation("sqrt", torch.sym_sqrt, is_checked=False, operands=1),
    "FloorToInt": Operation("floor", math.floor, is_checked=False, operands=1),
    "CeilToInt": Operation("ceil", math.ceil, is_checked=False, operands=1),
    "TruncToInt": Operation("trunc", math.trunc, is_checked=False, operands=1),
}
"""By the names of the classes."""
_REVERSED = frozenset({"StrictGreaterThan", "GreaterThan"})


class NoProgram(Exception):
    """An expression has a part that is not among the operations."""


def compile_expression(
    expression: Any, leaf: Callable[[Any], Step], to_be_checked: bool = True
) -> list[Step | Operation]:
    """The expression in postfix order: numbers as ``("const", number)``, what ``leaf`` makes of its symbols, and
    operations.

    Raises:
        NoProgram: it has an operation or a number that there is nothing for. ``to_be_checked``: in symbolic programs.
    """
    if expression.is_Symbol:
        return [leaf(expression)]
    if expression.is_Integer or expression.is_Boolean and not expression.args:
        number = int(expression) if expression.is_Integer else int(bool(expression))
        if to_be_checked and abs(number) > _GREATEST:
            raise NoProgram(expression)
        return [("const", number)]
    if expression.is_Float and not to_be_checked:
        return [("const", float(expression))]
    kind = type(expression).__name__
    if kind in _REVERSED:
        return compile_expression(expression.reversed, leaf, to_be_checked)
    operation = _OPERATIONS.get(kind)
    if operation is None or (to_be_checked and not operation.is_checked):
        raise NoProgram(expression)
    if kind == "Pow" and not expression.args[1].is_nonnegative:
        raise NoProgram(expression)
    parts = [compile_expression(arg, leaf, to_be_checked) for arg in expression.args]
    program = list(parts[0])
    for part in parts[1:]:
        program += [*part, operation]
    return [*program, operation] if operation.operands == 1 else program


def is_checkable(expression: Any, hints: dict[Any, int]) -> bool:
    """Whether a symbolic program computes an expression of these numbers, which are integers of 64 bits on the way."""
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
        if abs(stack[-1]) > _GREATEST:
            return False
    return True


_BITS = 64
_GREATEST = (1 << _BITS - 1) - 1
