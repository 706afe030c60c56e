"""Numbers that may differ from call to call: sizes of tensors, integers that symbols stand for, and floats.

Arithmetic makes new ones; a comparison is decided as it is now, which the guards then demand. What needs to know the
number (an index, a loop, a key) gets it, and with that it is the same in every call of the graph.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from dynamo_lite.exc import InternalError
from dynamo_lite.insight.break_reasons import DataDependentBranch, DataDependentValue, UnsupportedValue
from dynamo_lite.records.source import Source
from dynamo_lite.shapes.conditions import symbolic_shapes
from dynamo_lite.shapes.expressions import NoProgram, Operation, compile_expression
from dynamo_lite.shapes.facts import ComputedInt
from dynamo_lite.shapes.float_formulas import (
    BINARY_OPERATORS,
    MAY_RAISE,
    OF_BITS,
    OPERATIONS,
    TO_INTEGER,
    Bounds,
    Formula,
    apply,
    is_exact,
    is_finite,
)
from dynamo_lite.shapes.python_random import RandomCall
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import TEXTS, Args, Kwargs, VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.late_text import text_of_number
from dynamo_lite.variables.core.operator_symbols import BINARY, COMPARE
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator

from .number_methods import called_on

_ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%"})
_DIVISIONS = frozenset({"/", "//", "%"})


class SymbolicNumber(VariableTracker):
    """A number that is not known."""

    __slots__ = ("attempt",)
    attempt: Attempt
    is_symbolic = True
    is_data_dependent = False
    """Whether nothing is known of it before the graph runs."""

    def is_constant(self) -> bool:
        return False

    def identity(self) -> Any:
        return ConstantVariable(self.as_constant())

    def guard_key(self, tx: Translator) -> None:
        """Its value is the key."""

    def cache_key(self, tx: Translator) -> Any:
        return self.as_constant()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        kind = self.python_type()
        if kind is bool and hasattr(kind, name):
            return ConstantVariable(self.as_constant()).getattr(tx, name)
        if name in _ITSELF:
            return self
        if name in _OF_THE_TYPE or not hasattr(kind, name):  # of each number of the type it is the same
            return ConstantVariable(kind()).getattr(tx, name)
        return BuiltinMethodVariable(self, name)

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return text_of_number(tx, self, TEXTS[name])

    def format(self, tx: Translator, spec: VariableTracker) -> VariableTracker:
        return text_of_number(tx, self, format, tx.python_value(spec))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        found = None if kwargs or self.python_type() is bool else called_on(tx, self, name, args)
        if found is not None:
            return found
        return ConstantVariable(self.as_constant()).call_method(tx, name, args, kwargs)

    def index(self, tx: Translator, message: str) -> Any:
        return ConstantVariable(self.as_constant()).index(tx, message)

    def formula(self) -> Formula | None:
        """What a float is computed by of this; None: by nothing but its value."""
        raise NotImplementedError

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        if other.operand is None:
            return None
        found = self._float(BINARY[symbol], other, reflected)
        if found is not None:
            return found
        known = [ConstantVariable(each.as_constant()) for each in (self, other)]
        return tx.binary(symbol, *(reversed(known) if reflected else known))

    def _float(self, function: Any, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        """The float that an operator makes of this and another number, as a formula."""
        mine, theirs = self.formula(), formula_of(other)
        if (function not in BINARY_OPERATORS and function not in OF_BITS) or mine is None or theirs is None:
            return None
        left, right = (theirs, mine) if reflected else (mine, theirs)
        return _make_formula(self.attempt, function, left, right)

    def _compared(self, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """A comparison of which one side is a float, decided."""
        mine, theirs = self.formula(), formula_of(other)
        if mine is None or theirs is None:
            return None
        if symbol == "!=":
            return ConstantVariable(not _decide_formula(self.attempt, operator.eq, mine, theirs))
        return ConstantVariable(_decide_formula(self.attempt, COMPARE[symbol], mine, theirs))


class SymNodeVariable(SymbolicNumber):
    """An int, or a float or comparison that hangs on data. ``number``: torch's SymInt, SymFloat or SymBool."""

    __slots__ = ("number",)

    def __init__(self, attempt: Attempt, number: Any, source: Source | None = None) -> None:
        self.source = source
        self.attempt = attempt
        self.number = number

    def realize(self) -> VariableTracker:
        known = self.number.node.maybe_as_int() if isinstance(self.number, torch.SymInt) else None
        return self if known is None else ConstantVariable(known, self.source)

    def python_type(self) -> type:
        return _PYTHON_TYPES[type(self.number)]

    def describe(self) -> str:
        return f"the number {self.number}"

    def as_constant(self) -> Any:
        """The number, which from now on is the same in every call."""
        return self._decide(self.python_type(), self.number)

    def as_fx(self) -> tuple[Any, Any]:
        if self.number.node.expr.free_symbols:  # nothing has settled it
            with contextlib.suppress(NoProgram):
                return self.attempt.graph.number(self.number), self.number
        value = self.as_constant()
        return value, value

    @property
    def operand(self) -> Any:  # type: ignore[override]
        return self.number

    def truth(self, tx: Translator) -> bool:
        return self._decide(bool, self.number if self.python_type() is bool else self.number != 0)

    def deferred_truth(self, tx: Translator) -> VariableTracker | None:
        if not self.is_data_dependent:
            return None
        return self if self.python_type() is bool else self.compare(tx, "!=", ConstantVariable(0))

    def _decide(self, kind: type, number: Any) -> Any:
        try:
            return kind(number)
        except symbolic_shapes().GuardOnDataDependentSymNode:
            self.attempt.graph.symbols.break_on_random_number(number)
            unsupported(DataDependentBranch() if kind is bool else DataDependentValue(self.describe()))
        finally:
            self.attempt.note_guards()

    @property
    def is_data_dependent(self) -> bool:
        return self.attempt.graph.symbols.is_data_dependent(self.number)

    def formula(self) -> Formula | None:
        symbols = self.attempt.graph.symbols
        if not isinstance(self.number, torch.SymInt) or not self.attempt.shapes.floats:
            return None
        if self.is_data_dependent:
            return symbols.formula_of_random_int(self.number.node.expr)
        if not self.number.node.expr.free_symbols:  # it is settled
            return Formula(int(self.number))
        found = symbols.of_integer(self.number)
        return found if found is not None and _can_load(self.number.node.expr) else None

    def binary(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool = False
    ) -> VariableTracker | None:
        number = other.operand
        if number is None:
            return None
        self._decide_truths(number)
        found = self._as_arithmetic(tx, symbol, other, reflected)
        if found is not None:
            return found
        negative = symbol == "**" and not reflected and isinstance(other, ConstantVariable) and other.value < 0
        if symbol == "/" or negative or other.python_type() is float or BINARY[symbol] in OF_BITS:
            found = self._float(BINARY[symbol], other, reflected)
            if found is not None:
                return found
        if isinstance(other, SymbolicFloat):
            number = other.as_constant()
        left, right = (number, self.number) if reflected else (self.number, number)
        raises = symbol in _DIVISIONS and self._decide(bool, right == 0)
        is_power = symbol == "**" and self._is_integers_power(other, reflected)
        made = tx.fold(BINARY[symbol], (left, right)) if (symbol in _ARITHMETIC and not raises) or is_power else None
        if made is None or _is_out_of_range(made):
            known = [ConstantVariable(each.as_constant()) for each in (self, other)]
            return tx.binary(symbol, *(reversed(known) if reflected else known))
        return tx.make(made)

    def _as_arithmetic(
        self, tx: Translator, symbol: str, other: VariableTracker, reflected: bool
    ) -> VariableTracker | None:
        """What a shift, or a mask of the lowest bits, does to integers in other words."""
        if self.python_type() is not int or other.python_type() is not int:
            return None
        if symbol in ("<<", ">>"):
            shifted, count = (other, self) if reflected else (self, other)
            if not _is_between(0, count, _GREATEST_SHIFT):
                return None
            return tx.binary("*" if symbol == "<<" else "//", shifted, tx.binary("**", ConstantVariable(2), count))  # type: ignore[no-any-return]
        mask = other.operand
        if symbol != "&" or type(mask) is not int or not 0 <= mask <= _GREATEST_MASK or mask & (mask + 1):
            return None
        return self.binary(tx, "%", ConstantVariable(mask + 1))

    def _is_integers_power(self, other: VariableTracker, reflected: bool) -> bool:
        """Whether the power of this to another integer, or ``reflected`` the other way round, is of the type of its
        base."""
        if other.python_type() is not int:
            return False
        if not reflected:
            return _is_between(0, other, _GREATEST_POWER)
        is_integer = other.operand > 1 and self.python_type() is int and not self.is_data_dependent
        return is_integer and self._decide(bool, self.number >= 0)

    def _decide_truths(self, *others: Any) -> None:
        """Truth values that hang on data are no numbers to torch: the graph breaks."""
        for each in (self.number, *others):
            if isinstance(each, torch.SymBool):
                self._decide(bool, each)

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        self._decide_truths()
        if function is operator.abs and self.python_type() is int and not self.is_data_dependent:
            return self if self._decide(bool, self.number >= 0) else tx.make(-self.number)
        if function is operator.invert:
            return tx.make(-self.number - 1)
        try:
            return tx.make(function(self.number))
        except TypeError:
            return tx.make(function(self.as_constant()))

    def converted(self, tx: Translator, function: Callable[..., Any], methods: Iterable[str]) -> VariableTracker:
        if self.python_type() is int and function in _OF_INTEGERS:
            return self
        if self.python_type() is int and function in (bin, hex, oct):
            return text_of_number(tx, self, function)
        if function in _OF_DIVISORS and self.python_type() is int:
            return tx.unary("abs", self)
        if (function is math.fabs or function in _PREDICATES) and self.python_type() is int:
            return self.converted(tx, float, methods).converted(tx, function, methods)
        if function is math.isqrt and self._decide(bool, 0 <= self.number) and self._decide(bool, self.number < _ROOTS):
            return self.converted(tx, math.sqrt, methods).converted(tx, math.floor, methods)
        mine = self.formula()
        found = None if mine is None else _make_formula(self.attempt, function, mine)
        if found is not None:
            return found
        symbolic = _FUNCTIONS.get(function)
        if symbolic is None or (function is math.sqrt and self._decide(bool, self.number < 0)):
            return super().converted(tx, function, methods)
        return tx.make(symbolic(self.number))

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        number = other.operand
        if number is None:
            return None
        if symbol not in ("==", "!="):
            self._decide_truths(number)
        if other.python_type() is float:
            decided = self._compared(symbol, other)
            if decided is not None:
                return decided
        found = COMPARE[symbol](self.number, number)
        if isinstance(found, torch.SymBool) and self.attempt.graph.symbols.is_data_dependent(found):
            return (
                SymNodeVariable(self.attempt, found)
                if self._is_open(found)
                else ConstantVariable(self._decide(bool, found))
            )
        return ConstantVariable(self._decide(bool, found))

    def _is_open(self, condition: torch.SymBool) -> bool:
        """Whether a condition on data hangs on that alone. Of random numbers there is nothing that the graph says."""
        known = symbolic_shapes().statically_known_true
        if known(condition) or known(torch.sym_not(condition)):
            return False
        self.attempt.graph.symbols.break_on_random_number(condition)
        return True

    @property
    def node(self) -> torch.fx.Node:
        """What computes it in the graph."""
        return self.attempt.graph.number(self.number)

    def reconstruct(self, cg: Codegen) -> None:
        can_load = _can_load(self.number.node.expr)
        found_before = self.python_type() is int and cg.attempt.graph.symbols.has_places(self.number)
        if self.is_data_dependent and not (can_load and found_before):
            cg.graph_result(self)
        elif can_load:
            _load_expression(cg, self.number.node.expr)
        else:
            cg.load_const(self.as_constant())


class SymbolicFloat(SymbolicNumber):
    """A float that CPython computes before the graph runs."""

    __slots__ = ("of",)

    def __init__(self, attempt: Attempt, of: Formula, source: Source | None = None) -> None:
        self.source = source
        self.attempt = attempt
        self.of = of

    def python_type(self) -> type:
        return float

    @property
    def is_data_dependent(self) -> bool:  # type: ignore[override]
        return self.of.is_random

    def describe(self) -> str:
        return f"the float {self.attempt.graph.symbols.formula_text(self.of)}"

    @property
    def operand(self) -> Any:  # type: ignore[override]
        return self.of.value

    def formula(self) -> Formula:
        return self.of

    def as_constant(self) -> float:
        """The float, which from now on is the same in every call."""
        self.attempt.graph.symbols.specialize(self.of)
        self.attempt.note_guards()
        return self.of.value

    def realize(self) -> VariableTracker:
        is_settled = self.of in self.attempt.graph.symbols.specialized
        return ConstantVariable(self.of.value, self.source) if is_settled else self

    def key(self) -> Any:
        return ConstantVariable(self.as_constant()).key()

    def truth(self, tx: Translator) -> bool:
        return not _decide_formula(self.attempt, operator.eq, self.of, Formula(0.0))

    def unary(self, tx: Translator, function: Any) -> VariableTracker | None:
        return self if function is operator.pos else _make_formula(self.attempt, _OF_ONE.get(function), self.of)

    def converted(self, tx: Translator, function: Callable[..., Any], methods: Iterable[str]) -> VariableTracker:
        if function is float:
            return self
        if function in _PREDICATES:
            return ConstantVariable(_PREDICATES[function](self.attempt, self.of))
        found = _make_formula(self.attempt, _OF_ONE.get(function, function), self.of)
        return super().converted(tx, function, methods) if found is None else found

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if other.operand is None:
            return None
        decided = self._compared(symbol, other)
        return tx.compare(symbol, ConstantVariable(self.as_constant()), other) if decided is None else decided

    def as_fx(self) -> tuple[Any, Any]:
        value = self.as_constant()
        return value, value

    def reconstruct(self, cg: Codegen) -> None:
        load_formula(cg, self.of)


def _is_out_of_range(number: Any) -> bool:
    """Whether it is an integer that torch takes for an infinite one now, or might."""
    hint = number.node.hint if isinstance(number, torch.SymInt) and number.node.has_hint() else 0
    return not -_GREATEST_SYMBOL <= hint <= _GREATEST_SYMBOL


def _is_between(least: int, number: VariableTracker, greatest: int) -> bool:
    """Whether an integer is that now, which is so in every call from now on."""
    if isinstance(number, ConstantVariable):
        return least <= number.value <= greatest
    if not isinstance(number, SymNodeVariable) or number.is_data_dependent:
        return False
    return number._decide(bool, number.number >= least) and number._decide(bool, number.number <= greatest)


def formula_of(number: VariableTracker) -> Formula | None:
    """What a number in a formula is; None: it can't be in one."""
    if isinstance(number, SymbolicNumber):
        return number.formula()
    return Formula(number.value) if isinstance(number, ConstantVariable) and is_exact(number.value) else None


def _make_formula(attempt: Attempt, function: Any, *operands: Formula) -> VariableTracker | None:
    """``function(*operands)``: a float, or an integer that is computed of floats; None where there is no formula."""
    made = apply(function, *operands)
    if made is None:
        return None
    if made.is_constant:
        return ConstantVariable(made.value)
    symbols = attempt.graph.symbols
    for index, compare, limit, truth in OPERATIONS[function].domain:
        if _decide_formula(attempt, compare, made.operands[index], Formula(limit)) is not truth:
            return None
    if function in MAY_RAISE or function in TO_INTEGER:
        if not made.has_program and not made.is_random:
            return None
        symbols.require(is_finite(made))
    if function in TO_INTEGER:
        return attempt.values.make(symbols.computed(made))
    return SymbolicFloat(attempt, made)


def call_on_numbers(
    tx: Translator, function: Callable[..., Any], numbers: Sequence[VariableTracker]
) -> VariableTracker | None:
    """What a function makes of numbers of which some are floats that may differ from call to call; None: it is called
    on known ones."""
    known = [each.realize() for each in numbers]
    if function is math.log and len(known) == 2 and any(isinstance(each, SymbolicNumber) for each in known):
        return tx.binary("/", *(each.converted(tx, math.log, ()) for each in known))  # type: ignore[no-any-return]
    if function in _OF_DIVISORS and len(known) > 2 and any(isinstance(each, SymNodeVariable) for each in known):
        return _of_integers(tx, function, known)
    if function in _OF_TWO_INTEGERS and any(isinstance(each, SymNodeVariable) for each in known):
        return _of_two_integers(tx, function, *known) if len(known) == 2 else None
    if function is round and len(known) == 2 and isinstance(known[0], SymbolicNumber):
        return _rounded(tx, *known)
    if function is math.pow and any(isinstance(each, SymNodeVariable) for each in known):
        known = [each.converted(tx, float, ("__float__", "__index__")).realize() for each in known]
    if not any(isinstance(each, SymbolicFloat) for each in known):
        return None
    function = _OF_TWO.get(function, function)
    operands = [formula_of(each) if each.python_type() in (int, float) else None for each in known]
    if None in operands or function not in OPERATIONS:
        return None
    return _make_formula(tx.attempt, function, *operands)


def _rounded(tx: Translator, number: VariableTracker, digits: VariableTracker) -> VariableTracker | None:
    """``round(number, digits)``."""
    if tx.is_none(digits):
        return number.converted(tx, round, ())
    if digits.python_type() is not int or number.python_type() not in (int, float):
        return None
    if number.python_type() is int and tx.truth(tx.compare(">=", digits, ConstantVariable(0))):
        return number
    function = int.__round__ if number.python_type() is int else float.__round__
    operands = formula_of(number), formula_of(digits)
    return None if None in operands else _make_formula(tx.attempt, function, *operands)  # type: ignore[arg-type]


def _of_integers(
    tx: Translator, function: Callable[..., Any], numbers: Sequence[VariableTracker]
) -> VariableTracker | None:
    """The same of more than two."""
    found: VariableTracker | None = numbers[0]
    for each in numbers[1:]:
        found = None if found is None else _of_two_integers(tx, function, found.realize(), each)
    return found


def _of_two_integers(
    tx: Translator, function: Callable[..., Any], one: VariableTracker, other: VariableTracker
) -> VariableTracker | None:
    """What a function makes of integers of which one is a symbol; None: it is called on known ones."""
    if one.python_type() is not int or other.python_type() is not int:
        return None
    if function in TO_INTEGER:
        operands = formula_of(one), formula_of(other)
        return None if None in operands else _make_formula(tx.attempt, function, *operands)  # type: ignore[arg-type]
    count = other.value if isinstance(other, ConstantVariable) else -1
    if not 0 < count <= _GREATEST_POWER or tx.truth(tx.compare("<", one, other)):
        return None
    factors = [tx.binary("-", one, ConstantVariable(each)) for each in range(count)]
    product = functools.reduce(functools.partial(tx.binary, "*"), factors)
    return product if function is math.perm else tx.binary("//", product, ConstantVariable(math.factorial(count)))


def _decide_formula(attempt: Attempt, function: Callable[[Any, Any], bool], *operands: Formula) -> bool:
    """What a comparison gives now, which is so in every call from now on."""
    condition = apply(function, *operands)
    if condition is None:  # of an integer that is no float
        raise InternalError(f"no formula compares {[each.value for each in operands]}")
    if not condition.is_constant:
        attempt.graph.symbols.require(condition, condition.value)
    return condition.value


def make_draw(tx: Translator, draw: RandomCall, value: float, bounds: Bounds) -> VariableTracker:
    """The number that a call draws. ``value``: what it is in the call that is traced."""
    formula = tx.graph.symbols.random_number(draw, value, bounds)
    if type(value) is int:
        return tx.make(tx.graph.symbols.random_int(formula))
    return SymbolicFloat(tx.attempt, formula)


# -- code that computes them -------------------------------------------------------------------------------------------


def load_formula(cg: Codegen, formula: Formula) -> None:
    """Emit what leaves a formula's number on the stack."""
    if formula.place is not None:
        formula.place.load(cg)
    elif formula.expression is not None:
        _load_expression(cg, formula.expression)
    elif formula.operation is None:
        cg.load_const(formula.value)
    elif formula.operation.function in _OPERATORS:
        for operand in formula.operands:
            load_formula(cg, operand)
        cg.binary_op(_OPERATORS[formula.operation.function])
    else:
        operands = [functools.partial(load_formula, cg, operand) for operand in formula.operands]
        cg.call(formula.operation.function, operands)


def _can_load(expression: Any) -> bool:
    """Whether the generated code may compute an expression of integers."""
    try:
        program = compile_expression(expression, lambda symbol: ("symbol", symbol), False)
    except NoProgram:
        return False
    return all(step.name in _EMITTED or step.name in _CALLED for step in program if isinstance(step, Operation))


def _load_expression(cg: Codegen, expression: Any) -> None:
    places = cg.attempt.graph.symbols.places
    for step in compile_expression(expression, lambda symbol: ("place", places[symbol]), False):
        if isinstance(step, Operation) and step.name in _CALLED:
            cg.call_with_pair(_CALLED[step.name])
        elif isinstance(step, Operation):
            cg.binary_op(_EMITTED[step.name])
        elif step[0] == "const":
            cg.load_const(step[1])
        elif isinstance(step[1], ComputedInt):
            load_formula(cg, step[1].formula)
        else:
            _load_place(cg, step[1])


_FUNCTIONS: dict[Any, Any] = {
    int: math.trunc,
    float: torch.sym_float,
    math.trunc: math.trunc,
    math.floor: math.floor,
    math.ceil: math.ceil,
    math.sqrt: torch.sym_sqrt,
}
"""Functions of one number, and what they are of torch's symbolic ones."""

_OF_INTEGERS = frozenset({int, round, math.trunc, math.floor, math.ceil})
"""Functions that leave an integer as it is."""
_OF_DIVISORS = frozenset({math.gcd, math.lcm})
_OF_TWO_INTEGERS = _OF_DIVISORS | {math.comb, math.perm}
_OF_TWO: dict[Any, Any] = {math.pow: operator.pow}
"""Functions of two numbers likewise."""
_PREDICATES: dict[Any, Callable[[Any, Formula], bool]] = {
    math.isfinite: lambda attempt, of: _decide_formula(attempt, math.isfinite, of),
    math.isnan: lambda attempt, of: not _decide_formula(attempt, operator.eq, of, of),
    math.isinf: lambda attempt, of: _decide_formula(attempt, operator.eq, apply(abs, of), Formula(math.inf)),
}
"""Functions of a float that give a truth value."""
_OF_ONE: dict[Any, Any] = {operator.neg: operator.neg, operator.abs: abs, math.fabs: abs, int: math.trunc}
"""Functions of a float, and what they are called in formulas."""
_ITSELF = frozenset({"real", "numerator"})
"""Attributes of a number that are that number."""
_OF_THE_TYPE = frozenset({"__class__", "__doc__", "imag", "denominator"})
_ROOTS = 1 << 50
"""Of integers below it the floating-point root is rounded down to the integer one."""
_GREATEST_POWER = 8
_GREATEST_SHIFT = 30
_GREATEST_SYMBOL = (1 << 62) - 1
_GREATEST_MASK = (1 << _GREATEST_SHIFT) - 1

_OPERATORS = {**BINARY_OPERATORS, **OF_BITS}
_EMITTED = {"add": "+", "mul": "*", "floordiv": "//", "mod": "%", "pow": "**", "truediv": "/"}
_CALLED: dict[str, Any] = {"min": min, "max": max}


def _load_place(cg: Codegen, place: Any) -> None:
    if place.kind == "int":
        cg.load_source(place.source)
        return
    dim = [lambda: cg.load_const(place.dim)] if place.kind in ("size", "stride") else []
    method = {"size": torch.Tensor.size, "stride": torch.Tensor.stride, "offset": torch.Tensor.storage_offset}
    cg.call(method[place.kind], [lambda: cg.load_source(place.source), *dim])


_PYTHON_TYPES: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def make_number(attempt: Attempt, number: Any) -> VariableTracker:
    """The tracker of a SymInt or SymFloat, which may be known to have one value."""
    if number.node.is_nested_int():
        unsupported(UnsupportedValue("a ragged size", "only sizes of a tensor itself are known"))
    known = number.node.maybe_as_int() if isinstance(number, torch.SymInt) else None
    return SymNodeVariable(attempt, number) if known is None else ConstantVariable(known)


@wraps_type(int)
def _wrap_int(attempt: Attempt, value: int, source: Source) -> VariableTracker:
    if attempt.shapes.is_symbol(source, value):
        source.check("type", int)
        return SymNodeVariable(attempt, attempt.graph.symbols.number(source, value), source)
    source.check("equals", value)
    return attempt.values.existing_constant(value, source)


@wraps_type(float)
def _wrap_float(attempt: Attempt, value: float, source: Source) -> VariableTracker:
    if attempt.shapes.is_formula(source, value):
        source.check("type", float)
        return SymbolicFloat(attempt, attempt.graph.symbols.float(source, value), source)
    source.check("equals", value)
    return attempt.values.existing_constant(value, source)
