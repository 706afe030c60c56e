"""The module ``re`` on constant strings. Functions that it calls are inlined."""

from __future__ import annotations

import re
from typing import Any

from dynamo_lite.insight.break_reasons import FailsInPython, UnsupportedAttribute
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import (
    Args,
    InvariantVariable,
    Kwargs,
    NotConstant,
    VariableTracker,
    unsupported,
    wraps_type,
)
from dynamo_lite.variables.core.protocols import Codegen, Translator
from dynamo_lite.variables.core.registry import models


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
        searched = args[0] if args else kwargs.get("string")
        if name in _READ_ONLY:  # they read the characters of an instance of a subclass of str, and call no method of it
            args = [each.realize().builtin_part() for each in args]
        if name in ("scanner", "finditer") or not all(map(tx.is_plain, [*args, *kwargs.values()])):
            unsupported(UnsupportedAttribute(self.describe(), name, "its arguments are not constant"))
        values, named = tx.python_values(args, kwargs)
        result = tx.fold(getattr(self.value, name), values, named)
        if isinstance(result, re.Match):
            return MatchVariable(tx, result, searched)
        return tx.make(result)


_READ_ONLY = frozenset({"match", "fullmatch", "search", "findall", "split"})
"""Methods that return copies of parts of their first argument, the searched string."""


class MatchVariable(VariableTracker):
    """A match in a constant string, ``searched``. One that is live across a graph break is created by CPython."""

    __slots__ = ("value", "searched")
    exact_type = re.Match

    def __init__(self, tx: Translator, value: re.Match[Any], searched: VariableTracker | None) -> None:
        self.source = None
        self.value = value
        self.searched = searched
        tx.attempt.provenance.created(self)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "string" and self.searched is not None:
            return self.searched
        value = tx.fold(getattr, (self.value, name))
        return BuiltinMethodVariable(self, name) if callable(value) else tx.make(value)

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        return tx.fold_call(getattr(self.value, name), args, kwargs)

    def getitem(self, tx: Translator, key: VariableTracker) -> VariableTracker:
        return tx.make(tx.fold(self.value.__getitem__, (tx.python_value(key),)))

    def reconstruct(self, cg: Codegen) -> None:
        raise NotConstant("a match")


wraps_type(re.Pattern)(PatternVariable.by_identity)


@models(re._compile)  # type: ignore[attr-defined]
def _compile(tx: Translator, pattern: VariableTracker, flags: VariableTracker) -> VariableTracker:
    values = tx.python_value(pattern), tx.python_value(flags)
    try:
        return tx.make(re._compile(*values))  # type: ignore[attr-defined]
    except (re.error, TypeError, ValueError):
        unsupported(FailsInPython("re.compile()", "the pattern is invalid"))
