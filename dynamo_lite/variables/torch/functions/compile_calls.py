"""Calls of ``torch.compile`` and ``dl.compile`` in traced code. The result is called as the original, which is inlined:
what it computes is part of the graph, whatever backend was asked for. If the program keeps the result beyond the graph,
generated code calls the function."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedAttribute
from dynamo_lite.plan.rows import Value
from dynamo_lite.variables.core.attributes import is_callable
from dynamo_lite.variables.core.base import Args, Kwargs, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import Model, models_raw

_FLAGS = ("fullgraph", "dynamic", "disable", "isolate_recompiles")
_UNSET = ("mode", "options", "name", "recompile_limit", "shapes_spec")
"""Settings that are only traced if they are None: their values are checked where the function is called."""


class _CompileCallVariable(VariableTracker):
    """What a call of the function ``compile`` returned: ``compile(*args, **settings)``."""

    __slots__ = ("compile", "args", "settings", "model")
    exact_type = types.FunctionType

    def __init__(self, compile: Callable[..., Any], args: Args, settings: Kwargs, model: Model) -> None:
        self.compile = compile
        self.args = args
        self.settings = settings
        self.model = model
        self.source = None

    def describe(self) -> str:
        return f"a result of {_name(self.compile)}()"

    def python_type(self) -> type:
        """Of a module the result is a module, of a class that exists once it is called."""
        if self.args and issubclass(self.args[0].python_type(), torch.nn.Module):
            unsupported(UnsupportedAttribute(self.describe(), "__class__"))
        return super().python_type()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        unsupported(UnsupportedAttribute(self.describe(), name))

    def construct(self, plan: Planner) -> Value:
        return plan.call(self.compile, *self.args, **self.settings)


class CompiledVariable(_CompileCallVariable):
    """``torch.compile(fn)``, called as ``fn``."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.call(self.args[0], args, kwargs)


class CompileDecoratorVariable(_CompileCallVariable):
    """``torch.compile(backend=…)``, called with a function."""

    __slots__ = ()

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) != 1 or kwargs:
            _refuse(self.compile, "its decorator takes one function")
        return self.model(tx, args, dict(self.settings))


def models_compile(compile: Callable[..., Any], parameter: str, backends: Callable[[], list[str]]) -> None:
    """Register the function ``compile``. ``parameter``: the name of its first parameter; ``backends``: the names that
    its parameter ``backend`` takes."""

    def model(tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        settings = {name: value.realize() for name, value in kwargs.items()}
        given = [*(each.realize() for each in args), *([settings.pop(parameter)] if parameter in settings else ())]
        if len(given) > 1:
            _refuse(compile, "it takes one function")
        for name, value in settings.items():
            _check_setting(tx, compile, name, value, backends)
        if not given or tx.is_none(given[0]):
            return CompileDecoratorVariable(compile, [], settings, model)
        (of,) = given
        is_compiled = isinstance(of, CompiledVariable)
        if not is_compiled and (issubclass(of.python_type(), type) or not is_callable(tx, of)):
            _refuse(compile, f"it isn't given a function or module, but {of.describe()}")
        disable = settings.get("disable")
        is_disabled = disable is not None and tx.python_value(disable)
        return of if is_disabled else CompiledVariable(compile, [of], settings, model)

    models_raw(compile, model)


def _check_setting(
    tx: Translator, compile: Callable[..., Any], name: str, value: VariableTracker, backends: Callable[[], list[str]]
) -> None:
    """Break the graph if the function may refuse the setting, which only its call tells."""
    if name in _FLAGS:
        is_known = isinstance(value, ConstantVariable) and type(value.value) in (bool, type(None))
    elif name == "backend" and value.python_type() is str:
        is_known = tx.python_value(value) in backends()
    elif name == "backend":
        is_known = tx.is_none(value) or (not issubclass(value.python_type(), type) and is_callable(tx, value))
    else:
        is_known = name in _UNSET and (tx.is_none(value) or name == "mode" and tx.python_value(value) == "default")
    if not is_known:
        _refuse(compile, f"of the setting {name}=")


def _refuse(compile: Callable[..., Any], because: str) -> NoReturn:
    unsupported(UnknownCall(f"{_name(compile)}()", because))


def _name(compile: Callable[..., Any]) -> str:
    return f"{compile.__module__.partition('.')[0]}.{compile.__name__}"


def _backends_of_torch() -> list[str]:
    registry = sys.modules.get("torch._dynamo.backends.registry")
    return ["eager", "inductor", "aot_eager", *getattr(registry, "_BACKENDS", ())]


models_compile(torch.compile, "model", _backends_of_torch)
