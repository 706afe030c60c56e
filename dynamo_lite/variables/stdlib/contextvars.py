"""``contextvars.ContextVar``: ``get``, ``set``, and ``reset`` by a token that the trace has created.

What the trace sets is set by generated code after the graph, which creates the token then. A value that was set and
reset again leaves nothing to do.
"""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

from dynamo_lite.insight.break_reasons import ContextReset
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Attempt, NotConstant, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_type
from dynamo_lite.variables.python.objects.opaque import OpaqueVariable

_UNSET = object()


class ContextVarVariable(OpaqueVariable):
    """A pre-existing context variable. ``tokens``: of what the trace has set and not reset; the last one counts."""

    __slots__ = ("tokens",)
    source: Source

    def __init__(self, value: ContextVar[Any], source: Source) -> None:
        super().__init__(value, source, "a context variable")
        self.tokens: list[CreatedToken] = []

    def method_get(self, tx: Translator, default: VariableTracker | None = None, /) -> VariableTracker:
        if self.tokens:
            return self.tokens[-1].content
        place, value = self.source.child("context_value"), self.value.get(_UNSET)
        if value is not _UNSET:
            return LazyVariable(tx.attempt, value, place.expect()).realize()
        place.check("unbound")
        if default is not None:
            return default
        try:
            value = self.value.get()
        except LookupError:
            tx.raise_with(LookupError, [self])
        return tx.attempt.values.wrap(value, tx.guards.const(value))

    def method_set(self, tx: Translator, content: VariableTracker, /) -> VariableTracker:
        tx.effects.mutate(self)
        token = CreatedToken(tx, self, content)
        self.tokens = [*self.tokens, token]
        return token

    def method_reset(self, tx: Translator, token: VariableTracker, /) -> VariableTracker:
        token = token.realize()
        if not self.tokens or token is not self.tokens[-1]:
            unsupported(ContextReset(self.value.name))
        tx.effects.mutate(self)
        self.tokens = self.tokens[:-1]
        return ConstantVariable(None)

    def replay(self, plan: Planner) -> None:
        if self.tokens:  # creating the last one creates those before it
            plan.value(self.tokens[-1])


class CreatedToken(VariableTracker):
    """A token that ``set`` returned during tracing. Generated code creates it by calling ``set``."""

    __slots__ = ("variable", "content")
    exact_type = Token

    def __init__(self, tx: Translator, variable: ContextVarVariable, content: VariableTracker) -> None:
        self.source = None
        self.variable = variable
        self.content = content
        tx.attempt.provenance.created(self)

    def construct(self, plan: Planner) -> Value:
        tokens = self.variable.tokens
        if self not in tokens:
            raise NotConstant("a token that was used")
        at = tokens.index(self)
        if at:  # the calls of `set` have an order
            plan.value(tokens[at - 1])
        return plan.call(ContextVar.set, self.variable, self.content)


@wraps_type(ContextVar)
def _wrap_context_variable(attempt: Attempt, value: ContextVar[Any], source: Source) -> VariableTracker:
    source.check("id", value)
    return ContextVarVariable(value, source)
