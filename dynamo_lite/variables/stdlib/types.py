"""The module ``types``: ``SimpleNamespace``."""

from __future__ import annotations

import types
from functools import partial

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import Args, Attempt, Kwargs, Planner, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.formatting import Texts, bracketed, listed, reprs
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable


class SimpleNamespaceVariable(UserObjectVariable):
    """``types.SimpleNamespace``: an object that compares by its attributes."""

    __slots__ = ()

    def __init__(self, value: types.SimpleNamespace | None = None, source: Source | None = None) -> None:
        super().__init__(value, types.SimpleNamespace, source)

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        if not isinstance(other, SimpleNamespaceVariable) or symbol not in ("==", "!="):
            return None
        return self.namespace(tx.attempt).compare(tx, symbol, other.namespace(tx.attempt))

    def text(self, tx: Translator, name: str) -> VariableTracker:
        return bracketed(tx, self, ("namespace(", ")"), self._attributes_text)

    def _attributes_text(self, tx: Translator) -> Texts:
        items = self.namespace(tx.attempt).items
        return listed([name, "=", value] for name, value in zip(items, reprs(tx, items.values())))

    def call_method(self, tx: Translator, name: str, args: Args, kwargs: Kwargs) -> VariableTracker:
        if name in ("__eq__", "__ne__", "__init__", "__repr__"):
            unsupported(UnsupportedOperation(f"{name}()", self.describe()))
        return super().call_method(tx, name, args, kwargs)

    def construct(self, plan: Planner) -> Value:
        return plan.create(self, plan.call(types.SimpleNamespace), partial(self.store_attributes, plan))


@models(types.SimpleNamespace)
def _namespace(tx: Translator, **values: VariableTracker) -> VariableTracker:
    namespace = SimpleNamespaceVariable()
    namespace.attrs.update(values)
    return namespace


@wraps_type(types.SimpleNamespace)
def _wrap_namespace(attempt: Attempt, value: types.SimpleNamespace, source: Source) -> VariableTracker:
    source.check("type", types.SimpleNamespace)
    return SimpleNamespaceVariable(value, source)
