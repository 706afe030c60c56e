"""``threading.Lock`` and ``RLock``. Another thread may change what a lock protects until it is acquired, so the graph
breaks there, and guards are checked again after it. A `with` block releases its lock after the graph and the side
effects, before whatever else of the frame runs in CPython."""

from __future__ import annotations

import threading
from typing import Any

from dynamo_lite.records.calls_around_graph import CallAfterGraph
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import VariableTracker, wraps_type
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.protocols import Attempt, Translator
from dynamo_lite.variables.python.objects.opaque import OpaqueVariable

_LOCKS = (type(threading.Lock()), type(threading.RLock()))


class LockVariable(OpaqueVariable):
    """A pre-existing lock."""

    __slots__ = ()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return BuiltinMethodVariable(self, name) if name == "__exit__" else super().getattr(tx, name)

    def method___exit__(self, tx: Translator, *error: VariableTracker) -> VariableTracker:
        """The frame begins inside of the block. If the graph fails, the error leaves the block in CPython."""
        tx.effects.note(CallAfterGraph(type(self.value).__exit__, self, *[ConstantVariable(None)] * 3))
        return ConstantVariable(None)


@wraps_type(*_LOCKS)
def _wrap_lock(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    source.check_type(value)
    return LockVariable(value, source, "other threads may hold it")
