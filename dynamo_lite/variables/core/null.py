"""The NULL that CPython's stack has beside a callable, and that unbound local variables have."""

from __future__ import annotations

from dynamo_lite.plan.rows import PushedNull, Value

from .base import Planner, VariableTracker


class Null(VariableTracker):
    __slots__ = ()
    is_created_per_load = True

    def describe(self) -> str:
        return "NULL"

    def construct(self, plan: Planner) -> Value:
        return PushedNull()


NULL = Null()


def unbound_local(name: str) -> str:
    """CPython's message for a local variable that is unbound."""
    return f"cannot access local variable '{name}' where it is not associated with a value"
