"""``random.Random``, pre-existing: the call draws its numbers before the graph. To create one breaks the graph."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, NoReturn

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedAttribute, UnsupportedOperation, UnsupportedValue
from dynamo_lite.records.code_origin import FOLDED_ERRORS
from dynamo_lite.records.source import Source
from dynamo_lite.runtime.interrupts import reraise_if_from_signal
from dynamo_lite.shapes.float_formulas import ANYTHING, Bounds, Formula, is_exact
from dynamo_lite.shapes.python_random import RandomCall
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Translator
from dynamo_lite.variables.core.registry import models_raw
from dynamo_lite.variables.python.numbers.symbolic import formula_of, make_draw

Random = random.Random


class RandomVariable(VariableTracker):
    """``real``: a copy, of which the trace draws what the call will."""

    __slots__ = ("real",)

    def __init__(self, real: Random, source: Source) -> None:
        self.source = source
        self.real = real

    def python_type(self) -> type:
        return Random

    def instance_get(self, tx: Translator, name: str) -> VariableTracker | None:
        if name in self.real.__dict__:
            unsupported(UnsupportedAttribute(self.describe(), name, "it is a part of its state"))
        return None

    def truth(self, tx: Translator) -> bool:
        return True

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        """A method in C, which the class in Python leaves to it."""
        if name not in _OF_C:
            unsupported(UnsupportedAttribute(self.describe(), name, "the method is not modelled"))
        return _METHODS[name](tx, self, args, kwargs)


@wraps_type(Random)
def _wrap_random(attempt: Attempt, value: Random, source: Source) -> VariableTracker:
    if list(value.__dict__) != _OWN:
        return attempt.values.opaque(value, source, "a Random with attributes of its own")  # type: ignore[no-any-return]
    if source.kind != "const":
        source.check("type", Random)
    source.child("instance_dict").check("dict_keys", tuple(_OWN))
    copy = Random(0)
    copy.setstate(value.getstate())
    return RandomVariable(copy, source)


_OWN = list(Random(0).__dict__)


# -- numbers -----------------------------------------------------------------------------------------------------------


def _between(given: Args) -> Bounds:
    """Of ``randint``."""
    low, high = given
    return (_known(low, -math.inf), _known(high, math.inf))


def _in_range(given: Args) -> Bounds:
    """Of ``randrange``."""
    if all(each.is_constant() for each in given):
        numbers = range(*(each.as_constant() for each in given))
        return min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])
    low, high = (ConstantVariable(0), *given)[-2:]
    if len(given) > 2:
        unsupported(UnsupportedOperation("randrange()", "these arguments"))
    return _known(low, -math.inf), _known(high, math.inf) - 1


def _known(number: VariableTracker, otherwise: float) -> float:
    return number.as_constant() if number.is_constant() else otherwise


def _bits(given: Args) -> Bounds:
    return 0, (1 << given[0].as_constant()) - 1


def _unit(given: Args) -> Bounds:
    return 0.0, 1.0


def _from_to(given: Args) -> Bounds:
    """Of ``uniform``."""
    if len(given) != 2 or not all(each.is_constant() for each in given):
        return ANYTHING
    start, stop = (each.as_constant() for each in given)
    ends = float(start), float(start + (stop - start) * 1.0)  # which may be rounded to more than `stop`
    return min(ends), max(ends)


_FLOATS: dict[str, Callable[[Args], Bounds]] = {
    **dict.fromkeys(("betavariate", "gauss", "normalvariate", "lognormvariate", "expovariate"), lambda given: ANYTHING),
    **dict.fromkeys(("gammavariate", "vonmisesvariate", "paretovariate", "weibullvariate"), lambda given: ANYTHING),
    "random": _unit,
    "uniform": _from_to,
}
"""Methods that return a float, and between what."""
_INTEGERS: dict[str, Callable[[Args], Bounds]] = {"randint": _between, "randrange": _in_range, "getrandbits": _bits}
_OF_SYMBOLS = {"randint": (0, 1), "randrange": (0, 2), "uniform": (2, 2)}
"""What may be given numbers that differ from call to call."""


def _draws(name: str, bounds: Callable[[Args], Bounds], kind: type) -> None:
    function: Any = getattr(Random, name)

    def model(tx: Translator, of: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not isinstance(of, RandomVariable):
            unsupported(UnknownCall(f"Random.{name}()", f"it is given {of.describe()}"))
        if tx.graph.bodies or tx.effects.in_body or not tx.attempt.shapes.floats:
            unsupported(UnknownCall(f"{of.describe()}.{name}()", "what runs here is run at other times too"))
        args = [each.realize() for each in args]
        if not _may_differ(tx, name, args):
            args = [ConstantVariable(tx.python_value(each)) for each in args]
        known = {key: ConstantVariable(tx.python_value(each)) for key, each in kwargs.items()}
        formulas = [_formula(name, each) for each in args]
        named = {key: _formula(name, each) for key, each in known.items()}
        try:
            value = function(of.real, *(each.value for each in formulas), **{k: v.value for k, v in named.items()})
        except FOLDED_ERRORS as error:  # CPython raises it
            reraise_if_from_signal(error)
            unsupported(UnknownCall(f"Random.{name}()", f"it raises {type(error).__name__}"))
        if type(value) is not kind:
            unsupported(UnsupportedValue(f"what Random.{name}() returns", "it is of another type than usual"))
        draw = RandomCall(of.source, function, tuple(formulas), named, f"___draw{len(tx.attempt.before_graph.draws)}")
        tx.attempt.before_graph.draws.append(draw)
        given = [*args, *known.values()] if not kwargs else _in_order(function, args, known)
        return make_draw(tx, draw, value, bounds(given))

    _METHODS[name] = model


def _in_order(function: Any, args: Args, named: Kwargs) -> Args:
    """Arguments as they would be by position."""
    names = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    defaults = dict(zip(reversed(names), reversed(function.__defaults__ or ())))
    given = dict(zip(names, args)) | named
    if function is Random.randrange and given.get("stop", ConstantVariable(None)).as_constant() is None:
        return [given["start"]]
    return [given[name] if name in given else ConstantVariable(defaults[name]) for name in names]


def _formula(name: str, number: VariableTracker) -> Formula:
    if isinstance(number, ConstantVariable) and (type(number.value) is not int or not is_exact(number.value)):
        if type(number.value) is not float and number.value is not None:
            unsupported(UnsupportedOperation(f"Random.{name}()", "these arguments"))
        return Formula(number.value)
    found = formula_of(number)
    if found is None:
        unsupported(UnsupportedOperation(f"Random.{name}()", number.describe()))
    return found


def _may_differ(tx: Translator, name: str, args: Args) -> bool:
    """Whether some of the arguments may be other numbers in other calls, of which none is refused."""
    if all(each.is_constant() for each in args) or name not in _OF_SYMBOLS:
        return False
    if name == "uniform":
        return all(each.python_type() in (int, float) for each in args)
    if len(args) not in (1, 2) or any(
        each.python_type() is not int or each.is_data_dependent for each in _symbols(args)
    ):
        return False
    low, high = (ConstantVariable(0), *args)[-2:]
    return bool(tx.truth(tx.compare("<=" if name == "randint" else "<", low, high)))


def _symbols(args: Args) -> list[Any]:
    return [each for each in args if each.is_symbolic]


_METHODS: dict[str, Callable[[Any, Any, Args, Kwargs], VariableTracker]] = {}
_OF_C = ("random", "getrandbits")
for _name, _bounds in _FLOATS.items():
    _draws(_name, _bounds, float)
for _name, _bounds in _INTEGERS.items():
    _draws(_name, _bounds, int)


# -- the rest ----------------------------------------------------------------------------------------------------------


def _refuses(name: str, why: str) -> None:
    def model(tx: Translator, of: VariableTracker, args: Args, kwargs: Kwargs) -> NoReturn:
        unsupported(UnknownCall(f"Random.{name}()", why))

    _METHODS[name] = model


for _name in ("choice", "choices", "sample", "shuffle"):
    _refuses(_name, "which items it takes is known in the call only")
_refuses("seed", "it changes the state that numbers are drawn from")


def _models_method(name: str) -> None:
    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not args:
            raise NotConstant(name)
        return _METHODS[name](tx, args[0].realize(), args[1:], kwargs)

    models_raw(getattr(Random, name), model)


for _name in _METHODS:
    if _name not in _OF_C:
        _models_method(_name)
