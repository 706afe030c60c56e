"""The module ``re`` on known text. Functions that it calls are inlined."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedAttribute, UnsupportedOperation, UnsupportedValue
from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import (
    Args,
    Exhausted,
    InvariantVariable,
    Kwargs,
    VariableTracker,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.polyfills.carried import advance_iterator
from dynamo_lite.variables.python.containers.iterator import IteratorVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable, unwrapped


class PatternVariable(InvariantVariable):
    """A compiled pattern: a constant."""

    __slots__ = ()
    is_loaded_as_constant = True

    def identity(self) -> Any:
        return self.value

    def describe(self) -> str:
        return f"the pattern {self.value.pattern!r}"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        found = tx.fold(getattr, (self.value, name))
        return BuiltinMethodVariable(self, name) if callable(found) else tx.make(found)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("sub", "subn"):
            repl = args[0] if args else kwargs.get("repl", ConstantVariable(None))
            if not tx.is_plain(repl):
                substitute = tx.make(polyfills.re.substitute)
                found = tx.call(substitute, [self, *args], kwargs).realize()
                return found if name == "subn" else found.getitem(tx, ConstantVariable(0))
        given = args[0].realize() if args and name in _READ_ONLY else None
        text = given if isinstance(given, UserObjectVariable) and given.cls is not str else None
        if text is not None:  # its characters are read, no method is asked
            args = [unwrapped(text), *args[1:]]
        if name == "scanner" or not all(map(tx.is_plain, [*args, *kwargs.values()])):
            unsupported(UnsupportedAttribute(self.describe(), name, "its arguments are not known"))
        values = [tx.python_value(arg) for arg in args]
        named = {key: tx.python_value(value) for key, value in kwargs.items()}
        found = tx.fold(getattr(self.value, name), values, named)
        if name == "finditer":
            matches = [
                MatchVariable(m, _nth_match, (self.value, tuple(values), named, at)) for at, m in enumerate(found)
            ]
            return MatchIterator(self.value, values, named, matches)
        if isinstance(found, re.Match):
            return MatchVariable(found, _match, (self.value, name, tuple(values), named), text)
        return tx.make(found)


_READ_ONLY = frozenset({"match", "fullmatch", "search", "findall", "split"})
"""Methods whose first argument is a text that they give copies of."""


class MatchVariable(VariableTracker):
    """A match in known text. It is made again by ``make(*args)``. ``text``: the text, where its class is another than
    ``str``."""

    __slots__ = ("value", "make", "args", "text")

    def __init__(
        self,
        value: re.Match[Any],
        make: Callable[..., Any],
        args: tuple[Any, ...],
        text: VariableTracker | None = None,
    ) -> None:
        self.source = None
        self.text = text
        self.value = value
        self.make = make
        self.args = args

    def python_type(self) -> type:
        return re.Match

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "string" and self.text is not None:
            return self.text
        found = tx.fold(getattr, (self.value, name))
        return BuiltinMethodVariable(self, name) if callable(found) else tx.make(found)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        named = {key: tx.python_value(value) for key, value in kwargs.items()}
        return tx.make(tx.fold(getattr(self.value, name), [tx.python_value(arg) for arg in args], named))

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return tx.make(tx.fold(self.value.__getitem__, (tx.python_value(key),)))

    def reconstruct(self, cg: Codegen) -> None:
        if self.text is not None:
            unsupported(UnsupportedValue(self.describe(), "its text is of a class of its own"))
        cg.call(self.make, [lambda each=each: cg.load_const(each) for each in self.args])


def _match(pattern: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return getattr(pattern, name)(*args, **named)


def _nth_match(pattern: Any, args: tuple[Any, ...], named: dict[str, Any], at: int) -> Any:
    return list(pattern.finditer(*args, **named))[at]


class MatchIterator(IteratorVariable):
    """What ``finditer`` returns."""

    __slots__ = ("pattern", "args", "named", "matches", "at")

    def __init__(self, pattern: Any, args: list[Any], named: dict[str, Any], matches: list[MatchVariable]) -> None:
        self.source = None
        self.pattern = pattern
        self.args = args
        self.named = named
        self.matches = matches
        self.at = 0

    def python_type(self) -> type:
        return _MATCH_ITERATOR

    def next(self, tx: Translator) -> VariableTracker:
        if self.at == len(self.matches):
            raise Exhausted
        self.at += 1
        return self.matches[self.at - 1]

    def reconstruct(self, cg: Codegen) -> None:
        parts = (self.pattern, tuple(self.args), self.named, self.at)
        cg.call(_matches_from, [lambda each=each: cg.load_const(each) for each in parts])


_MATCH_ITERATOR: type = type(re.finditer("", ""))


def _matches_from(pattern: Any, args: tuple[Any, ...], named: dict[str, Any], at: int) -> Any:
    return advance_iterator(pattern.finditer(*args, **named), at)


wraps_type(re.Pattern)(PatternVariable.by_identity)


@models(re._compile)  # type: ignore[attr-defined]
def _compile(tx: Translator, pattern: VariableTracker, flags: VariableTracker) -> VariableTracker:
    values = tx.python_value(pattern), tx.python_value(flags)
    try:
        return tx.make(re._compile(*values))  # type: ignore[attr-defined]
    except (re.error, TypeError, ValueError):
        unsupported(UnsupportedOperation("re.compile()", "a pattern that is wrong"))
