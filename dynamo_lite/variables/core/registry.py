"""Models of known callables: one row a builtin function, class or class method.

A model is ``handler(tx, args, kwargs)`` after registration; it is written as a function of trackers,
``handler(tx, a, b, *, key=None)``. `builtins`, `construct`, `torch_api` and the files of `library` fill the tables.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .base import Args, Kwargs, VariableTracker, call_handler, mro, refuse_arguments, signature_in_c
from .protocols import Translator

Model = Callable[[Any, Args, Kwargs], VariableTracker]

_CALLS: dict[int, tuple[Any, Model]] = {}
_MADE: dict[int, tuple[Any, Callable[[Any, Any, Args, Kwargs], VariableTracker]]] = {}
_CLASS_METHODS: dict[tuple[type, str], Callable[..., VariableTracker]] = {}
_HOOKS: dict[str, Callable[..., Any]] = {}
_RULES: list[Callable[[Any], Model | None]] = []


def models(*callables: Any) -> Callable[[Callable[..., VariableTracker]], Callable[..., VariableTracker]]:
    """Register how a call of each of these is traced."""

    def register(fn: Callable[..., VariableTracker]) -> Callable[..., VariableTracker]:
        for each in callables:
            _CALLS[id(each)] = (each, _model_of(each, fn))
        return fn

    return register


def _model_of(value: Any, fn: Callable[..., VariableTracker]) -> Model:
    name = getattr(value, "__name__", str(value))
    takes = functools.cache(lambda: signature_in_c(value))

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        signature = takes()
        if signature is not None and not signature.takes(len(args), kwargs):
            refuse_arguments(name)
        return call_handler(fn, (tx, *args), kwargs, name)

    return model


def models_raw(value: Any, model: Model) -> None:
    """Register a model that takes (tx, args, kwargs)."""
    _CALLS[id(value)] = (value, model)


def models_if(rule: Callable[[Any], Model | None]) -> Callable[[Any], Model | None]:
    """Register a rule that gives the model of a callable, or None."""
    _RULES.append(rule)
    return rule


def models_class_method(cls: type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a class method of a builtin class: ``handler(tx, cls, *args)``."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        _CLASS_METHODS[cls, name] = fn
        return fn

    return register


def models_closures_of(make: Callable[[], Any], model: Callable[[Any, Any, Args, Kwargs], VariableTracker]) -> None:
    """Register how calls of the functions are traced that ``make`` returns, a closure each time: ``model(function, tx,
    args, kwargs)``, where ``function`` is the closure's tracker."""
    code = make().__code__
    _MADE[id(code)] = (code, model)


def find_closure_model(function: Any) -> Model | None:
    """The model of a closure of a known function."""
    row = _MADE.get(id(function.code))
    return None if row is None else functools.partial(row[1], function)


def find_model(value: Any) -> Model | None:
    """The model of a callable, None if there is none."""
    row = _CALLS.get(id(value))
    if row is not None:
        return row[1]
    for rule in _RULES:
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


def provides(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Fill in one of the services below from a room that is built on this one."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        _HOOKS[name] = fn
        return fn

    return register


def to_array(tx: Translator, tensor: Any) -> VariableTracker | None:
    """``tensor.numpy()``; None where numpy is not modelled."""
    hook = _HOOKS.get("to_array")
    return None if hook is None else hook(tx, tensor)


def become_created_leaf(tx: Translator, tensor: Any) -> bool:
    """Make a tensor, from here on a leaf that requires gradients, before the graph. False where that can't be, or
    needs not be."""
    return _HOOKS["become_created_leaf"](tx, tensor)  # type: ignore[no-any-return]


def wrapper_result(tx: Translator, node: Any, fake: Any) -> VariableTracker:
    """The tracker of an operator's result that is made of tensors by its class."""
    return _HOOKS["wrapper_result"](tx, node, fake)  # type: ignore[no-any-return]


def try_replace_data(tx: Translator, tensor: Any, data: Any, cls: type) -> bool:
    """``tensor.data = data`` for a leaf of which the class is this one then. False where that can't be traced."""
    return _HOOKS["try_replace_data"](tx, tensor, data, cls)  # type: ignore[no-any-return]


def ask(tx: Translator, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
    """Call a function of torch by the ``__torch_function__`` of its arguments' class."""
    return _HOOKS["ask"](tx, target, args, kwargs)
