"""``threading.local`` objects, with the attributes that they have on the thread that traces."""

from __future__ import annotations

import threading
from typing import Any, NoReturn

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.attributes import MISSING, class_lookup
from dynamo_lite.variables.core.base import Attempt, Translator, VariableTracker, unsupported
from dynamo_lite.variables.core.wrapping import wraps_if

from .user_object import UserObjectVariable


class ThreadLocalVariable(UserObjectVariable):
    """A pre-existing ``threading.local`` that the tracing thread has accessed before, so its attributes there exist."""

    __slots__ = ()
    namespace_kind = "thread_dict"
    accessors = threading.local

    def existing_namespace(self) -> dict[str, Any]:
        return _C.thread_dict(self.value) or {}

    def guard_lacks(self, name: str) -> None:
        assert self.source is not None
        self.source.child("thread_dict").check("dict_lacks", name)

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        return super().getattr(tx, self._refuse_dict(tx, name))

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        self._refuse_dict(tx, name)
        if self.cls is threading.local and class_lookup(self.cls, name) is MISSING:
            self.instance_set(tx, name, value)  # ``__dictoffset__`` is 0: the dicts are kept elsewhere
        else:
            super().setattr(tx, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        super().delattr(tx, self._refuse_dict(tx, name))

    def _dict(self, tx: Translator) -> NoReturn:
        unsupported(UnsupportedAttribute(self.describe(), "__dict__", "each thread has its own"))

    def _refuse_dict(self, tx: Translator, name: str) -> str:
        return self._dict(tx) if name == "__dict__" else name


@wraps_if(lambda value: issubclass(type(value), threading.local), order=80)
def _wrap_thread_local(attempt: Attempt, value: threading.local, source: Source) -> VariableTracker:
    cls = type(value)
    if _C.thread_dict(value) is None:
        return attempt.values.opaque(value, source, "a threading.local that this thread hasn't accessed before")
    source.check_type(value)
    return ThreadLocalVariable(value, cls, source)
