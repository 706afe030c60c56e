"""Symbolic floats: formulas of the floats of a call and of symbolic sizes.

Formulas are not simplified. CPython computes them before the graph runs, operation by operation as in the program, so
that results are bitwise those of eager. A guard in C++ computes them in the same way.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .expressions import Expression, Operation, Step, Symbol, compile_expression, is_checkable
from .number_guards import NumberSource

_EXACT = 1 << 53
"""Integers up to this magnitude are exact as floats."""

Leaf = Callable[[Any], list[Step]]
"""Returns the instructions of a guard program that read the number of a symbol or `NumberSource`."""
Domain = tuple[tuple[int, Callable[[Any, Any], bool], float, bool], ...]
"""Conditions under which Python computes an operation without raising: (index of an operand, comparison, number to
compare with, result of the comparison)."""


class FormulaOperation(NamedTuple):
    """An operation that formulas have."""

    function: Callable[..., Any]
    """What CPython calls. For an operator, its function in ``operator``."""
    name: str
    """Its name in guard programs. Empty: they don't have it, so a comparison of its result specializes the operands."""
    text: str
    """A format with a field for each operand; without fields, the name of the function that is called."""
    swapped: bool = False
    """Whether guard programs take the operands in the opposite order."""
    domain: Domain = ()


def total_of(*numbers: float) -> float:
    """The builtin ``sum``, which since CPython 3.12 is more exact than repeated addition."""
    return sum(numbers[1:], numbers[0])


_FLOAT = "float_of"
_DIVISOR: Domain = ((1, operator.eq, 0.0, False),)
_ROUNDED: Domain = ((0, operator.gt, -1e300, True), (0, operator.lt, 1e300, True))
_ROWS = [
    *(FormulaOperation(getattr(operator, name), f"float_{short}", f"({{}} {sign} {{}})")
      for name, short, sign in [("add", "add", "+"), ("sub", "sub", "-"), ("mul", "mul", "*"), ("pow", "pow", "**")]),
    FormulaOperation(operator.truediv, "float_div", "({} / {})", domain=_DIVISOR),
    FormulaOperation(operator.floordiv, "", "({} // {})", domain=_DIVISOR),
    FormulaOperation(operator.mod, "", "({} % {})", domain=_DIVISOR),
    FormulaOperation(operator.eq, "float_eq", "{} == {}"),
    FormulaOperation(operator.lt, "float_lt", "{} < {}"),
    FormulaOperation(operator.le, "float_le", "{} <= {}"),
    FormulaOperation(operator.gt, "float_lt", "{} > {}", swapped=True),
    FormulaOperation(operator.ge, "float_le", "{} >= {}", swapped=True),
    FormulaOperation(operator.neg, "float_neg", "-{}"),
    FormulaOperation(abs, "float_abs", "abs({})"),
    FormulaOperation(min, "float_min", "min"),
    FormulaOperation(max, "float_max", "max"),
    FormulaOperation(float, _FLOAT, "float({})"),
    *(FormulaOperation(getattr(math, name), name, f"math.{name}({{}})")
      for name in ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "trunc", "floor", "ceil")),
    FormulaOperation(round, "round", "round({})"),
    *(FormulaOperation(getattr(operator, f"{name}_" if name != "xor" else name), f"bit_{name}", f"({{}} {sign} {{}})")
      for name, sign in [("and", "&"), ("or", "|"), ("xor", "^")]),
    FormulaOperation(int.bit_length, "bit_length", "int.bit_length({})"),
    FormulaOperation(math.isfinite, "finite", "math.isfinite({})"),
    FormulaOperation(float.__round__, "", "round({}, {})", domain=_ROUNDED),
    FormulaOperation(total_of, "", "sum"),
]  # fmt: skip
OPERATIONS = {row.function: row for row in _ROWS}
_SAME = FormulaOperation(operator.is_, "eq", "{} == {}")
BINARY_OPERATORS = {
    **{operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.pow: "**"},
    **{operator.floordiv: "//", operator.mod: "%"},
}
MAY_RAISE = frozenset({operator.pow, math.sqrt, math.exp, math.log, math.log2, math.log10, math.sin, math.cos})
"""Operations that may raise for other operands. A guard checks that their result is finite, not a domain."""
_ROUNDING: frozenset[Callable[..., Any]] = frozenset({math.trunc, math.floor, math.ceil, round})
OF_BITS: dict[Callable[..., Any], str] = {operator.and_: "&", operator.or_: "|", operator.xor: "^"}
TO_INTEGER: frozenset[Callable[..., Any]] = frozenset({*_ROUNDING, *OF_BITS, int.bit_length})


@dataclass(frozen=True, eq=False)
class Formula:
    """A float, an integer that a float is computed from or converted to, or a comparison.

    One of ``place``, ``expression`` and ``operation`` is given; none for a constant."""

    value: Any
    """Its value in the call that is traced."""
    place: NumberSource | None = None
    expression: Expression = None
    """An expression of integer symbols."""
    operation: FormulaOperation | None = None
    operands: tuple[Formula, ...] = ()

    @property
    def has_program(self) -> bool:
        """Whether a guard program can compute it."""
        own = self.operation is None or self.operation.name != ""
        return own and all(each.has_program for each in self.operands)

    @property
    def is_constant(self) -> bool:
        """Whether it depends on no number of the call."""
        return next(self.leaves(), None) is None

    def leaves(self) -> Iterator[Formula]:
        """The formulas of places and expressions that it is computed from."""
        if self.place is not None or self.expression is not None:
            yield self
        for each in self.operands:
            yield from each.leaves()

    def steps(self, at: Leaf) -> list[Step]:
        """The guard program that computes it. ``at`` returns the instructions that read a symbol or place."""
        if self.place is not None:
            return at(self.place)
        if self.expression is not None:
            found: list[Step] = []
            for step in compile_expression(self.expression, lambda symbol: ("symbol", symbol)):
                if isinstance(step, Operation):
                    found.append((step.name,))
                else:
                    found.extend(at(step[1]) if step[0] == "symbol" else [step])
            return found
        if self.operation is None:
            return [("float_const", float(self.value))]
        operands = [each.float_steps(at) for each in self.operands]
        if self.operation.swapped:
            operands.reverse()
        last: list[Step] = [] if self.operation.name == _FLOAT else [(self.operation.name,)]
        return [step for each in operands for step in each] + last

    def float_steps(self, at: Leaf) -> list[Step]:
        """The guard program, with a conversion to float if it is an integer."""
        converts = type(self.value) is int and (self.expression is not None or self.operation is not None)
        return [*self.steps(at), (_FLOAT,)] if converts else self.steps(at)

    def text(self, name: Callable[[Any], str]) -> str:
        """Its text in the user's terms. ``name`` returns the text of a place or expression."""
        if self.place is not None or self.expression is not None:
            return name(self.expression if self.place is None else self.place)
        if self.operation is None:
            return repr(self.value)
        operands = [each.text(name) for each in self.operands]
        text = self.operation.text
        return text.format(*operands) if "{" in text else f"{text}({', '.join(operands)})"


class ComputedInt(NamedTuple):
    """An int that CPython computes from floats before the graph runs."""

    formula: Formula


def apply(function: Callable[..., Any], *operands: Formula) -> Formula | None:
    """The formula of ``function(*operands)``; None if formulas don't have the function, or if it raises."""
    operation = OPERATIONS.get(function)
    if operation is None or not all(is_exact(each.value) for each in operands):
        return None
    if function is operator.pow and not operands[0].value > 0:
        return None
    try:
        value = function(*(each.value for each in operands))
    except (ArithmeticError, ValueError, TypeError):
        return None
    if function in MAY_RAISE and not math.isfinite(value) or function in TO_INTEGER and abs(value) > _EXACT:
        return None
    return Formula(value, operation=operation, operands=operands)


def equals_traced_value(formula: Formula) -> Formula:
    """The condition that the formula's value is bitwise the traced one."""
    return Formula(True, operation=_SAME, operands=(formula, Formula(formula.value)))


def is_finite(formula: Formula) -> Formula:
    """The condition that Python computes a finite number without raising."""
    return Formula(True, operation=OPERATIONS[math.isfinite], operands=(formula,))


def of_integer(expression: Expression, value: int, hints: dict[Symbol, int]) -> Formula | None:
    """The formula of an expression of integer symbols; None if guard programs can't compute it."""
    can_be_checked = is_exact(value) and is_checkable(expression, hints)
    return Formula(value, expression=expression) if can_be_checked else None


def is_exact(value: float) -> bool:
    """Whether it is a float, or an integer that is exact as a float."""
    return isinstance(value, float) or abs(value) <= _EXACT
