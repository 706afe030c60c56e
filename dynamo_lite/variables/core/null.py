"""The NULL that CPython's stack has beside a callable, and that unbound local variables have."""

from __future__ import annotations

from .base import VariableTracker
from .protocols import Codegen


class Null(VariableTracker):
    __slots__ = ()
    is_created_per_load = True

    def describe(self) -> str:
        return "NULL"

    def reconstruct(self, cg: Codegen) -> None:
        cg.push_null()


NULL = Null()


def unbound_local(name: str) -> str:
    """CPython's message for a local variable that is unbound."""
    return f"cannot access local variable '{name}' where it is not associated with a value"
