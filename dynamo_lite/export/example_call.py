"""A program to export, with the arguments of one call."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from traceback import FrameSummary
from typing import Any

import torch

GENERATED = "<dl.export>"
"""The file of the generated function."""


class Program:
    """A callable with the arguments of one call."""

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.fn = fn
        shown = fn.forward if isinstance(fn, torch.nn.Module) else fn
        self.name: str = getattr(shown, "__qualname__", None) or type(fn).__qualname__
        self.first_line = _first_line(shown, self.name)
        named = list(_signature(fn).parameters.values())
        starred = [each.name for each in named if each.kind is each.VAR_KEYWORD]
        known = {each.name for each in named if each.kind not in (each.POSITIONAL_ONLY, *_STARRED)}
        more = [name for name in kwargs if name not in known] if starred else []
        _refuse_arguments(self.name, named, args, kwargs)
        self.parameters = [_renamed(each) for each in named if each.kind is not each.VAR_KEYWORD]
        taken = {each.name for each in self.parameters}
        if taken.intersection(more):
            raise ValueError(f"{self.name}: an argument in **{starred[0]} has the name of a parameter")
        by_name = inspect.Parameter.KEYWORD_ONLY  # an interpreter gets these in the call's order
        self.parameters += [inspect.Parameter(name, by_name) for name in more]
        order = {_own_name(name): at for at, name in enumerate(kwargs)}
        self.parameters.sort(key=lambda each: order.get(each.name, len(order)) if each.kind is by_name else -1)
        self.given: dict[str, Any] = {}
        """Name of a parameter that the example call passes -> its value."""
        self.caller = self._make_caller(args, kwargs)

    def _make_caller(self, args: tuple[object, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
        """Generate the function of the given arguments that calls the program."""
        passed = []
        positional = [each for each in self.parameters if each.kind <= each.POSITIONAL_OR_KEYWORD]
        for each, value in zip(positional, args):
            self.given[each.name] = value
            passed.append(each.name)
        rest = next((each.name for each in self.parameters if each.kind is each.VAR_POSITIONAL), None)
        if rest is not None and len(args) > len(positional):
            self.given[rest] = args[len(positional) :]
            passed.append(f"*{rest}")
        for name, value in kwargs.items():
            own = _own_name(name)
            self.given[own] = value
            passed.append(f"{name}={own}")
        name = "self" if isinstance(self.fn, torch.nn.Module) else self.name.rpartition(".")[2]
        if not name.isidentifier() or name in self.given:
            name = "program"
        while name in self.given:
            name += "_"
        text = f"def call({', '.join(self.given)}):\n    return {name}({', '.join(passed)})\n"
        namespace: dict[str, Any] = {name: self.fn}
        exec(compile(text, GENERATED, "exec"), namespace)
        made: Callable[..., Any] = namespace.pop("call")
        made.__qualname__ = self.name
        return made


_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(fn.forward if isinstance(fn, torch.nn.Module) else fn)
    except ValueError:  # a C function without a signature
        kinds = zip(("args", "kwargs"), _STARRED)
        return inspect.Signature([inspect.Parameter(name, kind) for name, kind in kinds])


def _own_name(name: str) -> str:
    """The name of a parameter in ``forward``, which has a ``self`` of its own."""
    return "self_" if name == "self" else name


def _renamed(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(name=_own_name(parameter.name), annotation=inspect.Parameter.empty)


def _refuse_arguments(
    name: str, named: list[inspect.Parameter], args: tuple[object, ...], kwargs: dict[str, Any]
) -> None:
    """Raise the TypeError that the call would raise if the arguments don't fit the signature."""
    plain = [each.replace(annotation=each.empty) for each in named]
    plain = [each if each.default is each.empty else each.replace(default=None) for each in plain]
    namespace: dict[str, Any] = {}
    exec(compile(f"def bind{inspect.Signature(plain)}: pass", GENERATED, "exec"), namespace)
    namespace["bind"].__qualname__ = name
    namespace["bind"](*args, **kwargs)


def _first_line(shown: Callable[..., Any], name: str) -> tuple[FrameSummary, ...]:
    """The place of a function's definition; empty if it isn't written in Python."""
    code = getattr(inspect.unwrap(getattr(shown, "__func__", shown)), "__code__", None)
    if not isinstance(code, types.CodeType):
        return ()
    return (FrameSummary(code.co_filename, code.co_firstlineno, name, lookup_line=False),)
