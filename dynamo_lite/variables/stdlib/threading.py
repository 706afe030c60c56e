"""``threading.Lock``, ``RLock``, ``Condition`` and semaphores. Another thread may change what a lock protects until it
is acquired, so the graph breaks there, and guards are checked again after it. A `with` block releases its lock after
the graph and the side effects, before whatever else of the frame runs in CPython."""

from __future__ import annotations

import threading

from dynamo_lite.insight.break_reasons import UnknownCall
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import BuiltinMethodVariable
from dynamo_lite.variables.core.base import Attempt, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.registry import models
from dynamo_lite.variables.core.wrapping import wraps_type
from dynamo_lite.variables.python.objects.opaque import OpaqueVariable

_LOCKS = (type(threading.Lock()), type(threading.RLock()))
_LOCKS_IN_PYTHON = (threading.Condition, threading.Semaphore, threading.BoundedSemaphore)


class LockVariable(OpaqueVariable):
    """A pre-existing lock."""

    __slots__ = ()

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return BuiltinMethodVariable(self, name) if name == "__exit__" else super().getattr(tx, name)

    def method___exit__(self, tx: Translator, *error: VariableTracker) -> VariableTracker:
        """The frame begins inside of the block. If the graph fails, the error leaves the block in CPython."""
        tx.effects.note_call(type(self.value).__exit__, self, *[ConstantVariable(None)] * 3)
        return ConstantVariable(None)


@wraps_type(*_LOCKS, *_LOCKS_IN_PYTHON)
def _wrap_lock(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    source.check_type(value)
    return LockVariable(value, source, "other threads may hold it")


@models(*{each.__exit__ for each in _LOCKS_IN_PYTHON})
def _exit(tx: Translator, lock: VariableTracker, *error: VariableTracker) -> VariableTracker:
    """The bound ``__exit__`` that is on the stack inside of a block."""
    lock = lock.realize()
    if not isinstance(lock, LockVariable):  # of a derived class
        unsupported(UnknownCall("threading.__exit__", "functions of the module threading act on the process"))
    return lock.method___exit__(tx, *error)
