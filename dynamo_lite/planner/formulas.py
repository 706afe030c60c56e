"""Numbers that generated code computes, as rows: formulas of floats, and expressions of integer symbols."""

from __future__ import annotations

import torch

from dynamo_lite.plan.rows import Binary, Value
from dynamo_lite.shapes.expressions import (
    PYTHON_FUNCTIONS,
    PYTHON_OPERATORS,
    Expression,
    Operation,
    compile_expression,
)
from dynamo_lite.shapes.float_formulas import BINARY_OPERATORS, OF_BITS, ComputedInt, Formula
from dynamo_lite.shapes.number_guards import NumberSource
from dynamo_lite.variables.core.base import Planner

_OPERATORS = {**BINARY_OPERATORS, **OF_BITS}


def formula_value(plan: Planner, formula: Formula) -> Value:
    """The value of a formula."""
    if formula.place is not None:
        return plan.reload(formula.place.source)
    if formula.expression is not None:
        return expression_value(plan, formula.expression)
    if formula.operation is None:
        return plan.constant(formula.value)
    operands = [formula_value(plan, operand) for operand in formula.operands]
    if formula.operation.function in _OPERATORS:
        left, right = operands
        return Binary(_OPERATORS[formula.operation.function], left, right)
    return plan.call(formula.operation.function, *operands)


def expression_value(plan: Planner, expression: Expression) -> Value:
    """The value of an expression of integer symbols, whose program has its operands before each operation."""
    places = plan.attempt.graph.symbols.places
    stack: list[Value] = []
    for step in compile_expression(expression, lambda symbol: ("place", places[symbol]), False):
        if isinstance(step, Operation):
            right, left = stack.pop(), stack.pop()
            function = PYTHON_FUNCTIONS.get(step.name)
            if function is None:
                stack.append(Binary(PYTHON_OPERATORS[step.name], left, right))
            else:
                stack.append(plan.call(function, left, right))
        elif step[0] == "const":
            stack.append(plan.constant(step[1]))
        elif isinstance(step[1], ComputedInt):
            stack.append(formula_value(plan, step[1].formula))
        else:
            stack.append(_place_value(plan, step[1]))
    (value,) = stack
    return value


def _place_value(plan: Planner, place: NumberSource) -> Value:
    source = plan.reload(place.source)
    if place.kind == "int":
        return source
    dim = [plan.constant(place.dim)] if place.kind in ("size", "stride") else []
    method = {"size": torch.Tensor.size, "stride": torch.Tensor.stride, "offset": torch.Tensor.storage_offset}
    return plan.call(method[place.kind], source, *dim)
