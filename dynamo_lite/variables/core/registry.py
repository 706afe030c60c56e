"""Models of callables: how a call of each known builtin function, class or class method is traced.

A model is written as a function of trackers, ``model(tx, a, b, *, key=None)``, and registered by a decorator. Rooms
above (`python`, `torch`, `stdlib`, `numpy`) fill the tables as `kinds` imports them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from dynamo_lite.insight.break_reason import BreakReason
from dynamo_lite.sources.identity import identity

from .base import Args, Kwargs, Translator, VariableTracker, unsupported
from .c_arguments import call_handler, raise_argument_error, refuse_arguments, takes_arguments
from .class_lookup import class_lookup, mro

Model = Callable[[Any, Args, Kwargs], VariableTracker]
ClosureModel = Callable[[Any, Any, Args, Kwargs], VariableTracker]
Rule = Callable[[Any], Model | None]
_Function = TypeVar("_Function", bound=Callable[..., Any])

_CALLS: dict[int, tuple[Any, Model]] = {}
"""By `identity`, as the next."""
_CLOSURES: dict[int, tuple[Any, ClosureModel]] = {}
_CLASS_METHODS: dict[tuple[type, str], Callable[..., VariableTracker]] = {}
_RULES: list[tuple[tuple[type, ...], Rule]] = []
_RULES_OF_FUNCTIONS: list[Rule] = []
"""Those of the rules that apply to Python functions, which are called most."""


def models(*callables: object) -> Callable[[Callable[..., VariableTracker]], Callable[..., VariableTracker]]:
    """Register how a call of each of these is traced."""

    def register(fn: Callable[..., VariableTracker]) -> Callable[..., VariableTracker]:
        for each in callables:
            _CALLS[identity(each)] = (each, _model_of(each, fn))
        return fn

    return register


def _model_of(value: object, fn: Callable[..., VariableTracker]) -> Model:
    name = getattr(value, "__name__", str(value))

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not takes_arguments(value, len(args), kwargs):
            raise_argument_error(tx, value, len(args), kwargs)
            refuse_arguments(name)
        return call_handler(fn, (tx, *args), kwargs, name, value, len(args))

    return model


def models_raw(value: object, model: Model) -> None:
    """Register a model that takes ``(tx, args, kwargs)``."""
    _CALLS[identity(value)] = (value, model)


def models_break(reason: BreakReason, *callables: object) -> None:
    """Register callables whose calls break the graph."""
    for each in callables:
        models_raw(each, lambda tx, args, kwargs: unsupported(reason))


def models_if(*kinds: type) -> Callable[[Rule], Rule]:
    """Register a rule that returns the model of a callable of one of these types, or None."""

    def register(rule: Rule) -> Rule:
        _RULES.append((kinds, rule))
        if issubclass(FunctionType, kinds):
            _RULES_OF_FUNCTIONS.append(rule)
        return rule

    return register


def models_class_method(cls: type, name: str) -> Callable[[_Function], _Function]:
    """Register a class method, in C or in Python: ``model(tx, cls, *args)``."""
    raw = class_lookup(cls, name)

    def register(fn: _Function) -> _Function:
        if isinstance(raw, classmethod):
            models(raw.__func__)(fn)
        else:
            _CLASS_METHODS[raw.__objclass__, name] = fn
        return fn

    return register


def models_closures_of(factory: Callable[[], Any], model: ClosureModel) -> None:
    """Register how calls of the closures are traced that share ``factory()``'s code: ``model(function, tx, args,
    kwargs)``, where ``function`` is the closure's tracker."""
    code = factory().__code__
    _CLOSURES[identity(code)] = (code, model)


def find_closure_model(function: Any) -> Model | None:
    """The model of a closure, by its code; None if there is none."""
    row = _CLOSURES.get(identity(function.code))
    return None if row is None else functools.partial(row[1], function)


def find_model(value: object) -> Model | None:
    """The model of a callable; None if there is none."""
    row = _CALLS.get(identity(value))
    if row is not None:
        return row[1]
    kind = type(value)
    is_function = kind is FunctionType
    for rule in _RULES_OF_FUNCTIONS if is_function else [rule for kinds, rule in _RULES if issubclass(kind, kinds)]:
        found = rule(value)
        if found is not None:
            return found
    return None


def class_method(cls: type, name: str) -> Callable[..., VariableTracker] | None:
    """The model of a class method in C, looked up along the MRO."""
    for base in mro(cls):
        found = _CLASS_METHODS.get((base, name))
        if found is not None:
            return found
    return _CLASS_METHODS.get((type, name))
