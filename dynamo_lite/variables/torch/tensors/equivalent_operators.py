"""By which other operators some are recorded."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker
from dynamo_lite.variables.core.protocols import Translator
from dynamo_lite.variables.python.numbers.symbolic import SymbolicFloat

Rewrite = Callable[[Any, str, Args, Kwargs], "VariableTracker | None"]
_REWRITES: dict[str, Rewrite] = {}


def rewrites(*names: str) -> Callable[[Rewrite], Rewrite]:
    """Register by which other operators these are recorded, where the rule doesn't return None."""

    def register(fn: Rewrite) -> Rewrite:
        for name in names:
            _REWRITES[name] = fn
        return fn

    return register


Takes = Callable[[Any, Any, Args, Kwargs], "VariableTracker | None"]
_TAKE_FLOATS: dict[Any, list[Takes]] = {}


def takes_floats(*targets: Any) -> Callable[[Takes], Takes]:
    """Register by what these are recorded (functions, and methods by their names) where a number that they are given is
    a float which may differ from call to call, and where the rule doesn't return None: if none does anything else, the
    float is settled."""

    def register(fn: Takes) -> Takes:
        for target in targets:
            _TAKE_FLOATS.setdefault(target, []).append(fn)
        return fn

    return register


def _with_floats(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    rules = _TAKE_FLOATS.get(target) if isinstance(target, (str, *_FUNCTION_TYPES)) else None
    if rules is None or not any(isinstance(each.realize(), SymbolicFloat) for each in (*args, *kwargs.values())):
        return None
    known = [arg.realize() for arg in args]
    return next((found for rule in rules if (found := rule(tx, target, known, kwargs)) is not None), None)


_FUNCTION_TYPES = (types.BuiltinFunctionType, types.FunctionType, types.MethodDescriptorType)


def by_rules(tx: Translator, target: Any, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """What they give for an operator; None: it is recorded as it is."""
    rule = _REWRITES.get(name)
    if rule is None and not tx.graph.symbols.has_floats:
        return None
    if any(each.realize().is_wrapper for each in (*args, *kwargs.values())):  # whose class may tell them apart
        return None
    if tx.graph.symbols.has_floats:
        taken = _with_floats(tx, target, args, kwargs)
        if taken is not None:
            return taken
    return None if rule is None else rule(tx, name, args, kwargs)
