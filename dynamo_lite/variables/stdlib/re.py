"""The module ``re`` on constant strings. Functions that it calls are inlined."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from dynamo_lite.insight.break_reasons import FailsInPython, UnsupportedAttribute
from dynamo_lite.plan.rows import Value
from dynamo_lite.variables import polyfills
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable, is_callable
from dynamo_lite.variables.core.base import Args, Kwargs, NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.base_kinds import InvariantVariable
from dynamo_lite.variables.core.c_arguments import call_handler
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.inert import register_inert_types
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.python.containers.sequences import ListVariable, TupleVariable


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
        replacement = args[0] if args else kwargs.get("repl")
        if name in ("sub", "subn") and replacement is not None and is_callable(tx, replacement.realize()):
            return call_handler(self._substitute, (tx, name, *args), kwargs, f"re.Pattern.{name}")
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

    def _substitute(
        self,
        tx: Translator,
        name: str,
        repl: VariableTracker,
        string: VariableTracker,
        count: VariableTracker | None = None,
    ) -> VariableTracker:
        """``sub`` or ``subn`` with a function, which is inlined for each match."""
        text = string.realize().builtin_part()
        if not tx.is_plain(text):
            unsupported(UnsupportedAttribute(self.describe(), name, "its arguments are not constant"))
        value, limit = tx.python_value(text), 0 if count is None else tx.index_value(count)
        matches = tx.fold(lambda text: [*islice(self.value.finditer(text), limit or None)], (value,))
        found: list[VariableTracker] = []
        at = 0
        for match in matches:
            before = ConstantVariable(value[at : match.start()])
            found.append(TupleVariable([before, MatchVariable(tx, match, string)]))
            at = match.end()
        given = [repl, ListVariable(found), ConstantVariable(value[at:]), ConstantVariable(value[:0])]
        result = tx.call(tx.make(polyfills.re.substitute), given, {})
        return result if name == "sub" else TupleVariable([result, ConstantVariable(len(found))])


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

    def construct(self, plan: Planner) -> Value:
        raise NotConstant("a match")


register_inert_types(re.Pattern, re.Match)
wraps_type(re.Pattern)(PatternVariable.by_identity)


@models(re._compile)  # type: ignore[attr-defined]
def _compile(tx: Translator, pattern: VariableTracker, flags: VariableTracker) -> VariableTracker:
    values = tx.python_value(pattern), tx.python_value(flags)
    try:
        return tx.make(tx.fold(re._compile, values))  # type: ignore[attr-defined]
    except re.error:
        unsupported(FailsInPython("re.compile()", "the pattern is invalid"))
