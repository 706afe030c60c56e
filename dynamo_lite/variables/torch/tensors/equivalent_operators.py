"""Operators that are recorded in the graph as equivalent ones, and why: see each rule registered here."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from dynamo_lite.variables.core.base import Args, Kwargs, Translator, VariableTracker
from dynamo_lite.variables.python.numbers.symbolic import SymbolicFloat

Rewrite = Callable[[Translator, str, Args, Kwargs], VariableTracker | None]
_REWRITES: dict[str, Rewrite] = {}


def rewrites(*names: str) -> Callable[[Rewrite], Rewrite]:
    """Register a rule that records the operators of these names, or returns None to have them recorded as they are."""

    def register(fn: Rewrite) -> Rewrite:
        for name in names:
            _REWRITES[name] = fn
        return fn

    return register


FloatRule = Callable[[Translator, Any, Args, Kwargs], VariableTracker | None]
_FLOAT_RULES: dict[object, list[FloatRule]] = {}


def takes_floats(*targets: object) -> Callable[[FloatRule], FloatRule]:
    """Register a rule that records these functions (or methods, by name) when an argument is a symbolic float.

    Rules are tried in order. If all return None, the float is specialized.
    """

    def register(fn: FloatRule) -> FloatRule:
        for target in targets:
            _FLOAT_RULES.setdefault(target, []).append(fn)
        return fn

    return register


def _apply_float_rules(tx: Translator, target: object, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    rules = _FLOAT_RULES.get(target) if isinstance(target, (str, *_FUNCTION_TYPES)) else None
    if rules is None or not any(isinstance(each.realize(), SymbolicFloat) for each in (*args, *kwargs.values())):
        return None
    operands = [arg.realize() for arg in args]
    return next((result for rule in rules if (result := rule(tx, target, operands, kwargs)) is not None), None)


_FUNCTION_TYPES = (types.BuiltinFunctionType, types.FunctionType, types.MethodDescriptorType)


def apply_rewrites(tx: Translator, target: object, name: str, args: Args, kwargs: Kwargs) -> VariableTracker | None:
    """The operator's result as recorded by a rule, or None if no rule applies."""
    rule, has_floats = _REWRITES.get(name), tx.graph.symbols.has_floats
    if rule is None and not has_floats:
        return None
    # The class of a wrapper subclass can tell the equivalent operators apart.
    if any(each.realize().is_wrapper for each in (*args, *kwargs.values())):
        return None
    found = _apply_float_rules(tx, target, args, kwargs) if has_floats else None
    return rule(tx, name, args, kwargs) if found is None and rule is not None else found
