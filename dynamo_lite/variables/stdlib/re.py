"""The module ``re`` on constant strings. Functions that it calls are inlined."""

from __future__ import annotations

import functools
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
from dynamo_lite.variables.polyfills.recreation import advance_iterator
from dynamo_lite.variables.python.containers.iterators import IteratorVariable
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable


class PatternVariable(InvariantVariable):
    """A compiled pattern, which is a constant."""

    __slots__ = ()
    is_loaded_as_constant = True

    def identity(self) -> Any:
        return self.value

    def describe(self) -> str:
        return f"the pattern {self.value.pattern!r}"

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        value = tx.fold(getattr, (self.value, name))
        return BuiltinMethodVariable(self, name) if callable(value) else tx.make(value)

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
            args = [text.builtin_part(), *args[1:]]
        if name == "scanner" or not all(map(tx.is_plain, [*args, *kwargs.values()])):
            unsupported(UnsupportedAttribute(self.describe(), name, "its arguments are not constant"))
        values = [tx.python_value(arg) for arg in args]
        named = {key: tx.python_value(value) for key, value in kwargs.items()}
        result = tx.fold(getattr(self.value, name), values, named)
        if name == "finditer":
            matches = [
                MatchVariable(match, _nth_match, (self.value, tuple(values), named, at))
                for at, match in enumerate(result)
            ]
            return MatchIterator(self.value, values, named, matches)
        if isinstance(result, re.Match):
            return MatchVariable(result, _match, (self.value, name, tuple(values), named), text)
        return tx.make(result)


_READ_ONLY = frozenset({"match", "fullmatch", "search", "findall", "split"})
"""Methods that return copies of parts of their first argument, the searched string."""


class MatchVariable(VariableTracker):
    """A match in a constant string; ``create(*args)`` creates an equal one. ``searched``: the string, if it is of a
    subclass of ``str``."""

    __slots__ = ("value", "create", "args", "searched")

    def __init__(
        self,
        value: re.Match[Any],
        create: Callable[..., Any],
        args: tuple[Any, ...],
        searched: VariableTracker | None = None,
    ) -> None:
        self.source = None
        self.searched = searched
        self.value = value
        self.create = create
        self.args = args

    def python_type(self) -> type:
        return re.Match

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "string" and self.searched is not None:
            return self.searched
        value = tx.fold(getattr, (self.value, name))
        return BuiltinMethodVariable(self, name) if callable(value) else tx.make(value)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        named = {key: tx.python_value(value) for key, value in kwargs.items()}
        return tx.make(tx.fold(getattr(self.value, name), [tx.python_value(arg) for arg in args], named))

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return tx.make(tx.fold(self.value.__getitem__, (tx.python_value(key),)))

    def reconstruct(self, cg: Codegen) -> None:
        if self.searched is not None:
            unsupported(UnsupportedValue(self.describe(), "the searched string is of a subclass of str"))
        cg.call(self.create, [functools.partial(cg.load_const, each) for each in self.args])


def _match(pattern: Any, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return getattr(pattern, name)(*args, **named)


def _nth_match(pattern: Any, args: tuple[Any, ...], named: dict[str, Any], at: int) -> Any:
    return list(pattern.finditer(*args, **named))[at]


class MatchIterator(IteratorVariable):
    """The iterator of ``Pattern.finditer``. ``at``: how many matches it has yielded."""

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
        args = (self.pattern, tuple(self.args), self.named, self.at)
        cg.call(_matches_from, [functools.partial(cg.load_const, each) for each in args])


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
        unsupported(UnsupportedOperation("re.compile()", "an invalid pattern"))
