"""Floats that may differ from call to call: those a call brings, and what Python makes of them and of symbolic sizes.

A formula is no algebra. CPython computes it before the graph runs, operation by operation as the program has them, so
that it gets the program's bits; a check in C++ computes it likewise.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from .expressions import Operation, Step, compile_expression, is_checkable

_EXACT = 1 << 53
"""Up to it each integer is a float."""

Leaf = Callable[[Any], list[Step]]
"""The instructions that read a symbol's or place's number."""
Bounds = tuple[float, float]
ANYTHING = (-math.inf, math.inf)


class FormulaOperation(NamedTuple):
    function: Callable[..., Any]
    """What CPython calls, or what an operator stands for."""
    name: str
    """In symbolic programs; empty: they don't have it, so that what is compared with it is known."""
    text: str
    """With a place for each operand; without: what is called on them."""
    swapped: bool = False
    """Whether programs have it with its operands the other way round."""
    domain: tuple[tuple[int, Callable[[Any, Any], bool], float, bool], ...] = ()
    """Comparisons of operands (which one, comparison, with what) and what they give where Python computes it."""


def total_of(*numbers: float) -> float:
    """The builtin's sum, which is more exact in some versions of Python than adding one by one."""
    return sum(numbers[1:], numbers[0])


_FLOAT = "float_of"
_DIVISOR = ((1, operator.eq, 0.0, False),)


def _between(low: float, high: float, compare: Callable[[Any, Any], bool] = operator.lt) -> Any:
    """The domain of a first operand."""
    upwards = {operator.lt: operator.gt, operator.le: operator.ge}[compare]
    return ((0, upwards, low, True), (0, compare, high, True))


_DOMAINS: dict[str, Any] = {
    **dict.fromkeys(("atan", "tanh", "asinh", "erf", "erfc", "degrees", "radians", "atan2", "copysign"), ()),
    **dict.fromkeys(("sinh", "cosh", "expm1"), _between(-500.0, 500.0)),
    **dict.fromkeys(("asin", "acos"), _between(-1.0, 1.0, operator.le)),
    "atanh": _between(-1.0, 1.0),
    "acosh": _between(1.0, math.inf),
    "log1p": _between(-1.0, math.inf),
    "tan": _between(-math.inf, math.inf),
    "fmod": (*_between(-math.inf, math.inf), *_DIVISOR),
}
"""Functions of the module ``math`` that programs don't have, and for what they don't raise."""
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
    FormulaOperation(float, _FLOAT, "float({})"),
    *(FormulaOperation(getattr(math, name), name, f"math.{name}({{}})")
      for name in ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tanh", "trunc", "floor", "ceil")),
    FormulaOperation(round, "round", "round({})"),
    *(FormulaOperation(getattr(math, name), name, f"math.{name}({{}}, {{}})") for name in ("gcd", "lcm")),
    *(FormulaOperation(getattr(operator, f"{name}_" if name != "xor" else name), f"bit_{name}", f"({{}} {sign} {{}})")
      for name, sign in [("and", "&"), ("or", "|"), ("xor", "^")]),
    *(FormulaOperation(getattr(int, name), name, f"int.{name}({{}})") for name in ("bit_length", "bit_count")),
    FormulaOperation(math.factorial, "factorial", "math.factorial({})"),
    FormulaOperation(int.__round__, "int_round", "round({}, {})"),
    FormulaOperation(math.isfinite, "finite", "math.isfinite({})"),
    FormulaOperation(float.__round__, "", "round({}, {})", domain=_between(-1e300, 1e300)),
    FormulaOperation(total_of, "", "sum"),
    *(FormulaOperation(getattr(math, name), "", f"math.{name}", domain=domain) for name, domain in _DOMAINS.items()),
]  # fmt: skip
OPERATIONS = {row.function: row for row in _ROWS}
_SAME = FormulaOperation(operator.is_, "eq", "{} == {}")
BINARY_OPERATORS = {
    **{operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.pow: "**"},
    **{operator.floordiv: "//", operator.mod: "%"},
}
MAY_RAISE = frozenset({operator.pow, math.sqrt, math.exp, math.log, math.log2, math.log10, math.sin, math.cos})
"""Operations that Python may refuse for other numbers, which are told by what they give (of others by their domain)."""
_ROUNDING = frozenset({math.trunc, math.floor, math.ceil, round})
OF_BITS = {operator.and_: "&", operator.or_: "|", operator.xor: "^"}
TO_INTEGER = frozenset(
    {*_ROUNDING, *OF_BITS, math.gcd, math.lcm, int.bit_length, int.bit_count, math.factorial, int.__round__}
)


@dataclass(frozen=True, eq=False)
class Formula:
    """A float, an integer that is in one or made of one, or a comparison: one of ``place``,
    ``expression`` and ``operation`` is given, or none for a constant."""

    value: Any
    """What it is in the call that is traced."""
    place: Any = None
    """Where a call finds it."""
    expression: Any = None
    """Of integer symbols."""
    operation: FormulaOperation | None = None
    operands: tuple[Formula, ...] = ()
    drawn: Bounds | None = None
    """Of a random number, which is drawn by the call itself: the least and the greatest that it may be."""

    @property
    def has_program(self) -> bool:
        """Whether a check can compute it."""
        own = self.operation is None or self.operation.name != ""
        return own and self.drawn is None and all(each.has_program for each in self.operands)

    @property
    def is_random(self) -> bool:
        """Whether a number that the call draws is in it: no check knows it."""
        return self.drawn is not None or any(each.is_random for each in self.operands)

    @property
    def bounds(self) -> Bounds:
        """Between what it is in every call, where random numbers decide that."""
        if self.drawn is not None:
            return self.drawn
        if self.is_known:
            return self.value, self.value
        bounded = None if self.operation is None else _BOUNDED.get(self.operation.function)
        found = ANYTHING if bounded is None else bounded(*(each.bounds for each in self.operands))
        return ANYTHING if any(map(math.isnan, found)) else found

    @property
    def is_known(self) -> bool:
        """Whether nothing that it is made of may differ from call to call."""
        return next(self.leaves(), None) is None

    def leaves(self) -> Iterator[Formula]:
        """The places and expressions that it is made of."""
        if self.place is not None or self.expression is not None:
            yield self
        for each in self.operands:
            yield from each.leaves()

    def steps(self, at: Leaf) -> list[Step]:
        """The program that computes it. ``at``: of what symbols and places read."""
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
        """The same, converted where it is an integer."""
        converts = type(self.value) is int and (self.expression is not None or self.operation is not None)
        return [*self.steps(at), (_FLOAT,)] if converts else self.steps(at)

    def text(self, name: Callable[[Any], str]) -> str:
        """In the user's own terms. ``name``: of a place, or of an expression."""
        if self.place is not None or self.expression is not None:
            return name(self.expression if self.place is None else self.place)
        if self.operation is None:
            return repr(self.value)
        operands = [each.text(name) for each in self.operands]
        text = self.operation.text
        return text.format(*operands) if "{" in text else f"{text}({', '.join(operands)})"


def apply(function: Callable[..., Any], *operands: Formula) -> Formula | None:
    """The formula of ``function(*operands)``; None where there is none, or Python refuses."""
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


def decided(condition: Formula) -> bool | None:
    """What a comparison gives in every call by the bounds of what it compares; None: they don't tell."""
    operation = condition.operation
    assert operation is not None
    if operation.function is math.isfinite:
        return True if all(map(math.isfinite, condition.operands[0].bounds)) else None
    (low, high), (other_low, other_high) = (each.bounds for each in condition.operands)
    compare = operation.function
    if compare is operator.eq:
        return False if high < other_low or other_high < low else None
    if compare in (operator.gt, operator.ge):
        always, never = compare(low, other_high), not compare(high, other_low)
    else:
        always, never = compare(high, other_low), not compare(low, other_high)
    return always if always or never else None


def same(formula: Formula) -> Formula:
    """That it is the float that it is now, bit for bit."""
    return Formula(True, operation=_SAME, operands=(formula, Formula(formula.value)))


def is_there(formula: Formula) -> Formula:
    """That Python computes it, and finds no infinity."""
    return Formula(True, operation=OPERATIONS[math.isfinite], operands=(formula,))


def of_integer(expression: Any, value: int, hints: dict[Any, int]) -> Formula | None:
    """Of an expression of integer symbols; None where programs can't have it."""
    found = is_exact(value) and is_checkable(expression, hints)
    return Formula(value, expression=expression) if found else None


def is_exact(value: float) -> bool:
    """Whether it is a float, or an integer that is one of them."""
    return isinstance(value, float) or abs(value) <= _EXACT


def _ends(function: Callable[..., float]) -> Callable[..., Bounds]:
    """Of a function that is monotone in each operand, rounded or not: its least and greatest are at ends of theirs."""

    def bounds(*operands: Bounds) -> Bounds:
        if not all(math.isfinite(end) for each in operands for end in each):
            return ANYTHING
        found = [function(*ends) for ends in itertools.product(*operands)]
        return min(found), max(found)

    return bounds


_BOUNDED: dict[Callable[..., Any], Callable[..., Bounds]] = {
    **{each: _ends(each) for each in (operator.add, operator.sub, operator.mul, operator.neg, float)},
    **{each: _ends(each) for each in _ROUNDING},
    abs: lambda ends: (0.0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends)), max(map(abs, ends))),
}
