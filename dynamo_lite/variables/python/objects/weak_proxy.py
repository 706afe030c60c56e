"""Pre-existing ``weakref.proxy`` objects, by which a submodule refers to its parent.

Reading attributes and calling are traced; all else breaks the graph.
"""

from __future__ import annotations

import weakref
from typing import Any

from dynamo_lite.insight.break_reasons import UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import Args, Kwargs, VariableTracker, unsupported, wraps_type
from dynamo_lite.variables.core.protocols import Attempt, Translator

from .user_object import OpaqueVariable
from .weak_reference import WeakReferenceVariable


class WeakProxyVariable(OpaqueVariable):
    """``reference``: the equivalent ``weakref.ref``, which reaches the referent."""

    __slots__ = ("reference",)

    def __init__(self, attempt: Attempt, value: Any, source: Source) -> None:
        super().__init__(value, source, "a weak proxy")
        self.reference = WeakReferenceVariable(value, source, attempt=attempt)

    def _referent(self, tx: Translator) -> VariableTracker:
        referent = self.reference.referent(tx).realize()
        if tx.is_none(referent):
            unsupported(UnsupportedOperation("access to the deallocated referent", "a weak proxy"))
        return referent

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return self._referent(tx).getattr(tx, name)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if type(self.value) is weakref.ProxyType:
            return super().call(tx, args, kwargs)
        return tx.call(self._referent(tx), args, kwargs)


@wraps_type(weakref.ProxyType, weakref.CallableProxyType)
def _wrap_proxy(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    if source.kind == "const":
        return attempt.values.opaque(value, source, "a weak proxy")
    source.check("type", type(value))
    return WeakProxyVariable(attempt, value, source)
