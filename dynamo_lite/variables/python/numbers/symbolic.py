"""Symbolic ints and floats: tensor sizes, ints and floats that may differ from call to call.

Arithmetic on a symbolic number gives a symbolic number. A comparison is evaluated for the traced call, and a guard
requires the same result of later calls. Where Python needs the value itself (a list index, a loop count, a dict key),
the number is specialized.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo_lite.exc import InternalError
from dynamo_lite.insight.break_reasons import DataDependentBranch, DataDependentValue
from dynamo_lite.insight.value_text import with_article
from dynamo_lite.plan.rows import Value
from dynamo_lite.shapes.expressions import (
    NoProgram,
    hint_of,
    is_computable,
    symbolic_shapes,
)
from dynamo_lite.shapes.float_formulas import (
    BINARY_OPERATORS,
    MAY_RAISE,
    OF_BITS,
    OPERATIONS,
    TO_INTEGER,
    Formula,
    apply,
    is_exact,
    is_finite,
)
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import (
    TEXTS,
    Args,
    Attempt,
    Kwargs,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable, wrap_constant
from dynamo_lite.variables.core.deferred_number import DeferredNumberVariable
from dynamo_lite.variables.core.deferred_text import text_of_number
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE
from dynamo_lite.variables.core.wrapping import wraps_type

_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
_DIVISIONS = frozenset({"/", "//", "%"})


class SymbolicNumber(VariableTracker):
    """Base of symbolic numbers. `as_constant` specializes the number."""

    __slots__ = ("attempt",)
    attempt: Attempt
    is_symbolic = True

    @property
    def is_data_dependent(self) -> bool:
        """Whether its value is unknown while tracing: the graph computes it."""
        return False

    @property
    def is_computed_outside(self) -> bool:
        """Whether generated code can compute it without the graph, and without specializing it."""
        raise NotImplementedError

    def is_constant(self) -> bool:
        return False

    def identity(self) -> Any:
        return ConstantVariable(self.as_constant())

    def cache_key(self, tx: Translator) -> Any:
        return self.as_constant()

    def c_attribute(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__class__":
            return super().c_attribute(tx, name)
        return ConstantVariable(self.as_constant()).getattr(tx, name)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return text_of_number(tx, self, TEXTS[name])

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        return text_of_number(tx, self, format, tx.python_value(spec))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name == "bit_length" and self.python_type() is int and not args:
            return self.converted(tx, int.bit_length)
        return ConstantVariable(self.as_constant()).call_method(tx, name, args, kwargs)

    def index(self, tx: Translator, message: str) -> Any:
        return ConstantVariable(self.as_constant()).index(tx, message)

    def as_formula(self) -> Formula | None:
        """The number as an operand of a float formula; None: only its specialized value can be one."""
        raise NotImplementedError

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        if other.operand is None:
            return None
        result = self._binary_formula(BINARY[symbol], other, reflected)
        return self._binary_on_constants(tx, symbol, other, reflected) if result is None else result

    def _binary_on_constants(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool
    ) -> VariableTracker:
        """A binary operator after specializing both operands."""
        left, right = ConstantVariable(self.as_constant()), ConstantVariable(other.as_constant())
        return tx.binary(symbol, right, left) if reflected else tx.binary(symbol, left, right)

    def _binary_formula(
        self, function: Callable[..., Any], other: VariableTracker, reflected: bool
    ) -> VariableTracker | None:
        """A binary operator as a formula, None if formulas don't have it."""
        mine, theirs = self.as_formula(), formula_of(other)
        if (function not in BINARY_OPERATORS and function not in OF_BITS) or mine is None or theirs is None:
            return None
        left, right = (theirs, mine) if reflected else (mine, theirs)
        return _make_formula(self.attempt, function, left, right)

    def _compare_formulas(self, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """The guarded result of a comparison with a float, None if there is no formula of an operand."""
        mine, theirs = self.as_formula(), formula_of(other)
        if mine is None or theirs is None:
            return None
        if symbol == "!=":
            return ConstantVariable(not _decide_formula(self.attempt, operator.eq, mine, theirs))
        return ConstantVariable(_decide_formula(self.attempt, COMPARE[symbol], mine, theirs))


class SymNodeVariable(SymbolicNumber):
    """A symbolic int, or a float or bool that depends on tensor data. ``number``: a SymInt, SymFloat or SymBool."""

    __slots__ = ("number",)

    def __init__(
        self, attempt: Attempt, number: torch.SymInt | torch.SymFloat | torch.SymBool, source: Source | None = None
    ) -> None:
        self.source = source
        self.attempt = attempt
        self.number: Any = number

    def realize(self) -> VariableTracker:
        """The number, or a constant if a SymInt has only one possible value."""
        value = self.number.node.maybe_as_int() if isinstance(self.number, torch.SymInt) else None
        return self if value is None else ConstantVariable(value, self.source)

    def python_type(self) -> type:
        return _PYTHON_TYPES[type(self.number)]

    def describe(self) -> str:
        kind = self.python_type().__name__
        return f"{with_article(kind)} that was read from a tensor" if self.is_data_dependent else f"a symbolic {kind}"

    def as_constant(self) -> Any:
        """Specialize the number: its value in the traced call, which guards require of later calls."""
        return self._evaluate(self.python_type(), self.number)

    def as_fx(self) -> tuple[Any, Any]:
        if self.number.node.expr.free_symbols:  # not specialized so far
            with contextlib.suppress(NoProgram):
                return self.attempt.graph.number(self.number), self.number
        return super().as_fx()

    @property
    def operand(self) -> Any:
        return self.number

    def truth(self, tx: Translator) -> bool:
        return self._decide(self.number if self.python_type() is bool else self.number != 0)

    def deferred_truth(self, tx: Translator) -> VariableTracker | None:
        if not self.is_data_dependent:
            return None
        return self if self.python_type() is bool else self.compare(tx, "!=", ConstantVariable(0))

    def _decide(self, condition: bool | torch.SymBool) -> bool:
        """The truth of a condition in the traced call, which guards require of later calls."""
        return bool(self._evaluate(bool, condition))

    def _evaluate(self, kind: type, number: object) -> Any:
        """The number as a ``kind``, guarded. Breaks the graph if it depends on tensor data."""
        try:
            return kind(number)
        except symbolic_shapes().GuardOnDataDependentSymNode:
            unsupported(DataDependentBranch() if kind is bool else DataDependentValue(f"the use of {self.describe()}"))
        finally:
            self.attempt.note_guards()

    @property
    def is_data_dependent(self) -> bool:
        return self.attempt.graph.symbols.is_data_dependent(self.number)

    def as_formula(self) -> Formula | None:
        symbols = self.attempt.graph.symbols
        if not isinstance(self.number, torch.SymInt) or not self.attempt.shapes.floats or self.is_data_dependent:
            return None
        if not self.number.node.expr.free_symbols:  # already specialized
            return Formula(int(self.number))
        formula = symbols.of_integer(self.number)
        return formula if formula is not None and is_computable(self.number.node.expr) else None

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        other = self._as_integer(other)
        number = other.operand
        if number is None:
            return None
        self._decide_bools(number)
        shift = self._shift(tx, symbol, other, reflected) if symbol in ("<<", ">>") else None
        if shift is not None:
            return shift
        is_root = symbol == "**" and not reflected and isinstance(other, ConstantVariable) and other.value < 0
        if symbol == "/" or is_root or other.python_type() is float or BINARY[symbol] in OF_BITS:
            result = self._binary_formula(BINARY[symbol], other, reflected)
            if result is not None:
                return result
        if isinstance(other, SymbolicFloat):
            number = other.as_constant()
        left, right = (number, self.number) if reflected else (self.number, number)
        raises = symbol in _DIVISIONS and self._decide(right == 0)
        if (symbol in _ARITHMETIC and not raises) or (symbol == "**" and self._is_integer_power(other, reflected)):
            value = tx.evaluate(BINARY[symbol], (left, right))
            if not _may_overflow(value):
                return tx.make(value)
        return self._binary_on_constants(tx, symbol, other, reflected)

    def _as_integer(self, other: VariableTracker) -> VariableTracker:
        """A constant bool beside a symbolic int or float is the integer that it equals: torch has no such operators."""
        is_bool = isinstance(other, ConstantVariable) and type(other.value) is bool
        return ConstantVariable(int(other.value)) if is_bool and self.python_type() is not bool else other

    def _shift(self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        """A shift as arithmetic; None for counts that aren't small ints."""
        shifted, count = (other, self) if reflected else (self, other)
        if not shifted.python_type() is count.python_type() is int or not _is_between(0, count, _MAX_SHIFT):
            return None
        return tx.binary("*" if symbol == "<<" else "//", shifted, tx.binary("**", ConstantVariable(2), count))

    def _is_integer_power(self, other: VariableTracker, reflected: bool) -> bool:
        """Whether ``self ** other`` (``other ** self`` if ``reflected``) is a symbolic int: the exponent is an int and
        isn't negative."""
        if other.python_type() is not int:
            return False
        if not reflected:
            return _is_between(0, other, _MAX_POWER)
        is_integer = other.operand > 1 and self.python_type() is int and not self.is_data_dependent
        return is_integer and self._decide(self.number >= 0)

    def _decide_bools(self, *others: object) -> None:
        """Specialize the bools among the operands, since torch has no arithmetic on a SymBool."""
        for each in (self.number, *others):
            if isinstance(each, torch.SymBool):
                self._decide(each)

    def unary(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker | None:
        self._decide_bools()
        if function is operator.abs and self.python_type() is int and not self.is_data_dependent:
            is_positive = symbolic_shapes().statically_known_true(self.number >= 0)
            return self if is_positive else tx.make(torch.sym_max(self.number, -self.number))
        if function is operator.invert:
            return tx.make(-self.number - 1)
        try:
            return tx.make(function(self.number))
        except TypeError:
            return tx.make(function(self.as_constant()))

    def converted(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker:
        if self.python_type() is int and function in _IDENTITY_ON_INTS:
            return self
        mine = self.as_formula()
        result = None if mine is None else _make_formula(self.attempt, function, mine)
        if result is not None:
            return result
        symbolic = _SYMBOLIC_FUNCTIONS.get(function)
        if symbolic is None or (function is math.sqrt and self._decide(self.number < 0)):
            return super().converted(tx, function)
        return tx.make(symbolic(self.number))

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        other = self._as_integer(other)
        number = other.operand
        if number is None:
            return None
        if symbol not in ("==", "!="):
            self._decide_bools(number)
        if other.python_type() is float:
            result = self._compare_formulas(symbol, other)
            if result is not None:
                return result
        condition = COMPARE[symbol](self.number, number)
        if isinstance(condition, torch.SymBool) and self._is_computed_by_graph(condition):
            return SymNodeVariable(self.attempt, condition)
        return ConstantVariable(self._decide(condition))

    def _is_computed_by_graph(self, condition: torch.SymBool) -> bool:
        """Whether the graph has to compute a condition: it depends on tensor data, and value ranges don't decide it."""
        if not self.attempt.graph.symbols.is_data_dependent(condition):
            return False
        is_true = symbolic_shapes().statically_known_true
        return not (is_true(condition) or is_true(torch.sym_not(condition)))

    @property
    def node(self) -> torch.fx.Node:
        """The graph node that computes the number."""
        return self.attempt.graph.number(self.number)

    @property
    def is_computed_outside(self) -> bool:
        return not self.is_data_dependent and is_computable(self.number.node.expr)

    def construct(self, plan: Planner) -> Value:
        if self.is_data_dependent:
            return plan.result(self)
        if is_computable(self.number.node.expr):
            return plan.expression(self.number.node.expr)
        return plan.constant(self.as_constant())


class SymbolicFloat(SymbolicNumber):
    """A symbolic float, which generated code computes before the graph runs."""

    __slots__ = ("formula",)
    exact_type = float

    def __init__(self, attempt: Attempt, formula: Formula, source: Source | None = None) -> None:
        self.source = source
        self.attempt = attempt
        self.formula = formula

    def describe(self) -> str:
        return f"the float {self.attempt.graph.symbols.formula_text(self.formula)}"

    @property
    def operand(self) -> Any:
        return self.formula.value

    def as_formula(self) -> Formula:
        return self.formula

    def as_constant(self) -> Any:
        """Specialize the float: its value in the traced call, which guards require of later calls."""
        self.attempt.graph.symbols.specialize(self.formula)
        self.attempt.note_guards()
        return self.formula.value

    def realize(self) -> VariableTracker:
        is_specialized = self.formula in self.attempt.graph.symbols.specialized
        return ConstantVariable(self.formula.value, self.source) if is_specialized else self

    def key(self) -> Any:
        return ConstantVariable(self.as_constant()).key()

    def truth(self, tx: Translator) -> bool:
        return not _decide_formula(self.attempt, operator.eq, self.formula, Formula(0.0))

    def unary(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker | None:
        return self if function is operator.pos else _make_formula(self.attempt, _UNARY.get(function), self.formula)

    def converted(self, tx: Translator, function: Callable[..., Any]) -> VariableTracker:
        if function is float:
            return self
        if function is math.isnan:
            return tx.compare("!=", self, self)
        if function in (math.isfinite, math.isinf):
            symbol = "<" if function is math.isfinite else "=="
            return tx.compare(symbol, tx.unary("abs", self), ConstantVariable(math.inf))
        result = _make_formula(self.attempt, _UNARY.get(function, function), self.formula)
        return super().converted(tx, function) if result is None else result

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if other.operand is None:
            return None
        result = self._compare_formulas(symbol, other)
        return tx.compare(symbol, ConstantVariable(self.as_constant()), other) if result is None else result

    @property
    def is_computed_outside(self) -> bool:
        return True

    def construct(self, plan: Planner) -> Value:
        return plan.formula(self.formula)


def _may_overflow(number: object) -> bool:
    """Whether a SymInt is beyond the largest int that torch doesn't take for infinity."""
    hint = hint_of(number) if isinstance(number, torch.SymInt) and number.node.has_hint() else 0
    return not -_MAX_SYMBOL <= hint <= _MAX_SYMBOL


def _is_between(least: int, number: VariableTracker, greatest: int) -> bool:
    """Whether ``least <= number <= greatest``, guarded. False if the number depends on data."""
    if isinstance(number, ConstantVariable):
        return bool(least <= number.value <= greatest)
    if not isinstance(number, SymNodeVariable) or number.is_data_dependent:
        return False
    return number._decide(number.number >= least) and number._decide(number.number <= greatest)


def formula_of(number: VariableTracker) -> Formula | None:
    """A number as an operand of a formula; None if formulas can't have it."""
    if isinstance(number, SymbolicNumber):
        return number.as_formula()
    return Formula(number.value) if isinstance(number, ConstantVariable) and is_exact(number.value) else None


def _make_formula(
    attempt: Attempt, function: Callable[..., Any] | None, *operands: Formula | None
) -> VariableTracker | None:
    """The number ``function(*operands)``; None if there is no formula of it, or of an operand."""
    known = [each for each in operands if each is not None]
    formula = None if function is None or len(known) < len(operands) else apply(function, *known)
    if formula is None or function is None:
        return None
    if formula.is_constant:
        return ConstantVariable(formula.value)
    symbols = attempt.graph.symbols
    for index, compare, limit, truth in OPERATIONS[function].domain:
        if _decide_formula(attempt, compare, formula.operands[index], Formula(limit)) is not truth:
            return None
    if function in MAY_RAISE or function in TO_INTEGER:
        if not formula.has_program:
            return None
        symbols.require(is_finite(formula))
    if function in TO_INTEGER:
        return attempt.values.make(symbols.computed(formula))
    return SymbolicFloat(attempt, formula)


def call_on_numbers(
    tx: Translator, function: Callable[..., Any], numbers: Sequence[VariableTracker]
) -> VariableTracker | None:
    """``function(*numbers)`` where some are symbolic; None if it can't be computed without specializing them."""
    args = [each.realize() for each in numbers]
    has_ints = any(isinstance(each, SymNodeVariable) for each in args)
    if function is math.log and len(args) == 2 and any(isinstance(each, SymbolicNumber) for each in args):
        number, base = (each.converted(tx, math.log) for each in args)
        return tx.binary("/", number, base)
    if function is round and args and isinstance(args[0], DeferredNumberVariable):
        return args[0].rounded(tx, *args[1:])
    if function is math.pow and has_ints:
        args = [each.converted(tx, float).realize() for each in args]
    if not any(isinstance(each, SymbolicFloat) for each in args):
        return None
    function = {math.pow: operator.pow, round: float.__round__}.get(function, function)
    operands = [formula_of(each) if each.python_type() in (int, float) else None for each in args]
    return _make_formula(tx.attempt, function, *operands)


def extremum(
    tx: Translator, function: Callable[..., Any], numbers: Sequence[VariableTracker]
) -> VariableTracker | None:
    """``min`` or ``max`` of two numbers or more, of which some are symbolic; None if it can't be computed without
    specializing them: that of an int and a float has the type of one of them."""
    kinds = {each.python_type() for each in numbers}
    if len(numbers) < 2 or kinds not in ({int}, {float}):
        return None
    for each in numbers:
        if isinstance(each, DeferredNumberVariable):
            return each.extremum(tx, function, numbers)
    if not any(isinstance(each, SymbolicFloat) for each in numbers):
        symbolic = torch.sym_min if function is min else torch.sym_max
        return tx.make(functools.reduce(symbolic, [each.operand for each in numbers]))
    result: VariableTracker | None = numbers[0]
    for each in numbers[1:]:
        if result is not None:
            result = _make_formula(tx.attempt, function, formula_of(result), formula_of(each))
    return result


def _decide_formula(attempt: Attempt, function: Callable[..., bool], *operands: Formula) -> bool:
    """The result of a comparison or predicate in the traced call, which guards require of later calls."""
    condition = apply(function, *operands)
    if condition is None:  # an operand is an int that no float equals
        raise InternalError(f"no formula compares {[each.value for each in operands]}")
    if not condition.is_constant:
        attempt.graph.symbols.require(condition, condition.value)
    return bool(condition.value)


_SYMBOLIC_FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    int: math.trunc,
    float: torch.sym_float,
    math.trunc: math.trunc,
    math.floor: math.floor,
    math.ceil: math.ceil,
    math.sqrt: torch.sym_sqrt,
}
"""Functions of one number that torch's symbolic numbers support, and how they are called on these."""

_IDENTITY_ON_INTS = frozenset({int, round, math.trunc, math.floor, math.ceil})
_UNARY: dict[Callable[..., Any], Callable[..., Any]] = {
    operator.neg: operator.neg,
    operator.abs: abs,
    math.fabs: abs,
    int: math.trunc,
}
"""Functions of a float, and the functions that formulas have in their place."""
_MAX_POWER = 8
_MAX_SHIFT = 30
_MAX_SYMBOL = (1 << 62) - 1

_PYTHON_TYPES: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


@wraps_type(int)
def _wrap_int(attempt: Attempt, value: int, source: Source) -> VariableTracker:
    if attempt.shapes.is_symbol(source, value):
        source.check("type", int)
        return SymNodeVariable(attempt, attempt.graph.symbols.number(source, value), source)
    return wrap_constant(attempt, value, source)


@wraps_type(float)
def _wrap_float(attempt: Attempt, value: float, source: Source) -> VariableTracker:
    if attempt.shapes.is_formula(source, value):
        source.check("type", float)
        return SymbolicFloat(attempt, attempt.graph.symbols.float(source, value), source)
    return wrap_constant(attempt, value, source)
