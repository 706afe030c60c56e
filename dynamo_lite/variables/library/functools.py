"""The module ``functools``."""

from __future__ import annotations

import functools
from typing import Any

from ...reasons import UnsupportedOperation
from ..base import Args, Kwargs, VariableTracker, unsupported
from ..function import FunctionVariable, NestedFunctionVariable
from ..registry import Model, models, models_if


@models(functools.wraps)
def _wraps(tx: Any, wrapped: VariableTracker, *args: Any, **kwargs: Any) -> VariableTracker:
    return WrapsVariable(wrapped)


class WrapsVariable(VariableTracker):
    """``functools.wraps(f)``: the decorator."""

    __slots__ = ("wrapped",)

    def __init__(self, wrapped: VariableTracker) -> None:
        self.source = None
        self.wrapped = wrapped

    def python_type(self) -> type:
        return functools.partial

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        function = args[0]
        if not isinstance(function, NestedFunctionVariable):
            unsupported(UnsupportedOperation("functools.wraps()", function.describe()))
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            if tx.has_attribute(self.wrapped, name):
                function.attrs[name] = self.wrapped.getattr(tx, name)
        function.attrs["__wrapped__"] = self.wrapped
        return function

    def reconstruct(self, cg: Any) -> None:
        cg.call(functools.wraps, [lambda: cg.load(self.wrapped)])


@models_if
def _lru_cached(value: Any) -> Model | None:
    """A cached function is inlined: for equal arguments it would have returned what it computes."""
    if type(value) is not functools._lru_cache_wrapper:
        return None
    wrapped = value.__wrapped__
    return lambda tx, args, kwargs: tx.call(FunctionVariable(wrapped, None), args, kwargs)
