"""Pre-existing ``random.Random`` objects: generated code calls their methods before the graph, in program order.

Creating one, and choosing items by one, breaks the graph.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable
from typing import Any, NoReturn

from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.insight.break_reasons import RandomChoice, RandomGenerator
from dynamo_lite.records.code_origin import FOLDED_ERRORS
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.interrupts import reraise_if_from_signal
from dynamo_lite.shapes.float_formulas import ANYTHING, Bounds, Formula, is_exact
from dynamo_lite.shapes.python_random import RandomCall
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    NotConstant,
    VariableTracker,
    refuse_arguments,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Translator
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.numbers.symbolic import SymbolicNumber, formula_of, make_draw

Random = random.Random


class RandomVariable(VariableTracker):
    """``real``: a copy in the same state, which gives the trace the numbers that the call will get."""

    __slots__ = ("real",)

    def __init__(self, real: Random, source: Source) -> None:
        self.source = source
        self.real = real

    def python_type(self) -> type:
        return Random

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if name in self.real.__dict__:
            unsupported(RandomGenerator(f"{name} of {self.describe()}", "it is a part of the generator's state"))
        return None

    def truth(self, tx: Translator) -> bool:
        return True

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method in C, which ``random.Random`` inherits."""
        if name not in _OF_C:
            unsupported(RandomGenerator(f"{name}() of {self.describe()}", "the method is not modelled"))
        return _METHODS[name](tx, self, args, kwargs)


@wraps_type(Random)
def _wrap_random(attempt: Attempt, value: Random, source: Source) -> VariableTracker:
    if list(value.__dict__) != _ATTRIBUTES:
        return attempt.values.opaque(value, source, "a Random with attributes of its own")
    if source.kind != "const":
        source.check("type", Random)
    source.child("instance_dict").check("dict_keys", tuple(_ATTRIBUTES))
    copy = Random(0)
    copy.setstate(value.getstate())
    return RandomVariable(copy, source)


_ATTRIBUTES = list(Random(0).__dict__)


# -- numbers -----------------------------------------------------------------------------------------------------------


def _randint_bounds(given: Args) -> Bounds:
    low, high = given
    return (_constant(low, -math.inf), _constant(high, math.inf))


def _randrange_bounds(given: Args) -> Bounds:
    if all(each.is_constant() for each in given):
        numbers = range(*(each.as_constant() for each in given))
        return min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])
    low, high = (ConstantVariable(0), *given)[-2:]
    if len(given) > 2:
        refuse_arguments("randrange")
    return _constant(low, -math.inf), _constant(high, math.inf) - 1


def _constant(number: VariableTracker, otherwise: float) -> float:
    return number.as_constant() if number.is_constant() else otherwise


def _getrandbits_bounds(given: Args) -> Bounds:
    return 0, (1 << given[0].as_constant()) - 1


def _random_bounds(given: Args) -> Bounds:
    return 0.0, 1.0


def _uniform_bounds(given: Args) -> Bounds:
    if len(given) != 2 or not all(each.is_constant() for each in given):
        return ANYTHING
    start, stop = (each.as_constant() for each in given)
    ends = float(start), float(start + (stop - start) * 1.0)  # rounding may give more than `stop`
    return min(ends), max(ends)


_FLOATS: dict[str, Callable[[Args], Bounds]] = {
    **dict.fromkeys(("betavariate", "gauss", "normalvariate", "lognormvariate", "expovariate"), lambda given: ANYTHING),
    **dict.fromkeys(("gammavariate", "vonmisesvariate", "paretovariate", "weibullvariate"), lambda given: ANYTHING),
    "random": _random_bounds,
    "uniform": _uniform_bounds,
}
"""Methods that return a float, and the bounds of the result."""
_INTEGERS: dict[str, Callable[[Args], Bounds]] = {
    "randint": _randint_bounds,
    "randrange": _randrange_bounds,
    "getrandbits": _getrandbits_bounds,
}
_TAKES_SYMBOLIC = frozenset({"randint", "randrange", "uniform"})
"""Methods that may be given symbolic numbers."""


def _model_method(name: str, bounds: Callable[[Args], Bounds], kind: type[int] | type[float]) -> None:
    function: Any = getattr(Random, name)

    def model(tx: Translator, of: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not isinstance(of, RandomVariable) or of.source is None:
            unsupported(RandomGenerator(f"Random.{name}()", f"it is given {of.describe()}"))
        if tx.graph.bodies or tx.effects.in_body or not tx.attempt.shapes.floats:
            unsupported(
                RandomGenerator(
                    f"{of.describe()}.{name}()",
                    "an operator of the graph may call it any number of times",
                )
            )
        args = [each.realize() for each in args]
        if not _is_symbolic(tx, name, args):
            args = [ConstantVariable(tx.python_value(each)) for each in args]
        kwargs = {key: ConstantVariable(tx.python_value(each)) for key, each in kwargs.items()}
        formulas = [_formula(name, each) for each in args]
        named = {key: _formula(name, each) for key, each in kwargs.items()}
        value: Any
        try:
            value = function(of.real, *(each.value for each in formulas), **{k: v.value for k, v in named.items()})
        except FOLDED_ERRORS as error:  # CPython raises it
            reraise_if_from_signal(error)
            unsupported(RandomGenerator(f"Random.{name}()", f"it raises {type(error).__name__}"))
        if type(value) is not kind:
            unsupported(RandomGenerator(f"Random.{name}()", "what it returns is not of the usual type"))
        draw = RandomCall(of.source, function, tuple(formulas), named, f"___draw{len(tx.attempt.before_graph.draws)}")
        tx.attempt.before_graph.draws.append(draw)
        return make_draw(tx, draw, value, bounds(_in_order(function, args, kwargs)))

    _METHODS[name] = model


def _in_order(function: Callable[..., object], args: Args, named: Kwargs) -> Args:
    """The arguments as positional ones, without ``stop=None`` of ``randrange``."""
    given = inspect.signature(function).bind(None, *args, **named).args[1:]
    return [each for each in given if not each.is_constant() or each.as_constant() is not None]


def _formula(name: str, number: VariableTracker) -> Formula:
    if isinstance(number, ConstantVariable) and (type(number.value) is not int or not is_exact(number.value)):
        if type(number.value) is not float and number.value is not None:
            refuse_arguments(f"Random.{name}")
        return Formula(number.value)
    formula = formula_of(number)
    if formula is None:
        unsupported(RandomGenerator(f"Random.{name}()", f"it is given {number.describe()}"))
    return formula


def _is_symbolic(tx: Translator, name: str, args: Args) -> bool:
    """Whether an argument is symbolic, and the method takes all of its values."""
    if all(each.is_constant() for each in args) or name not in _TAKES_SYMBOLIC:
        return False
    if name == "uniform":
        return all(each.python_type() in (int, float) for each in args)
    symbolic = [each for each in args if isinstance(each, SymbolicNumber)]
    if len(args) not in (1, 2) or any(each.python_type() is not int or each.is_data_dependent for each in symbolic):
        return False
    low, high = (ConstantVariable(0), *args)[-2:]
    return tx.truth(tx.compare("<=" if name == "randint" else "<", low, high))


_METHODS: dict[str, Callable[[Any, Any, Args, Kwargs], VariableTracker]] = {}
_OF_C = ("random", "getrandbits")
for _name, _bounds in _FLOATS.items():
    _model_method(_name, _bounds, float)
for _name, _bounds in _INTEGERS.items():
    _model_method(_name, _bounds, int)


# -- methods that break the graph --------------------------------------------------------------------------------------


def _refuse(name: str, reason: BreakReason) -> None:
    def model(tx: Translator, of: VariableTracker, args: Args, kwargs: Kwargs) -> NoReturn:
        unsupported(reason)

    _METHODS[name] = model


for _name in ("choice", "choices", "sample", "shuffle"):
    _refuse(_name, RandomChoice(_name))
_refuse("seed", RandomGenerator("Random.seed()", "it sets the state of a random number generator"))


def _register(name: str) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not args:
            raise NotConstant(name)
        return _METHODS[name](tx, args[0].realize(), args[1:], kwargs)

    models_raw(getattr(Random, name), model)


for _name in _METHODS:
    if _name not in _OF_C:
        _register(_name)
