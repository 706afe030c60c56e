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
from dynamo_lite.variables.python.containers.mappings import DictVariable

from .user_object import UserObjectVariable


class ThreadLocalVariable(UserObjectVariable):
    """A pre-existing ``threading.local`` that the tracing thread has accessed before, so its attributes there exist."""

    __slots__ = ()
    accessors = threading.local

    def existing_namespace(self) -> dict[str, Any] | None:
        return _C.thread_dict(self.value)

    def own_attribute_source(self, name: str) -> Source | None:
        assert self.source is not None
        attributes = self.source.child("thread_dict")
        if name in (self.existing_namespace() or ()):
            return attributes.child("dict_item", name).expect()
        attributes.check("dict_lacks", name)
        return None

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__dict__":
            self._refuse(name)
        return super().getattr(tx, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if name == "__dict__":
            self._refuse(name)
        if self.cls is threading.local and class_lookup(self.cls, name) is MISSING:
            self.instance_set(tx, name, value)  # ``__dictoffset__`` is 0: the dicts are kept elsewhere
        else:
            super().setattr(tx, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        if name == "__dict__":
            self._refuse(name)
        super().delattr(tx, name)

    def namespace(self, attempt: Attempt) -> DictVariable:
        self._refuse("__dict__")

    def _refuse(self, name: str) -> NoReturn:
        unsupported(UnsupportedAttribute(self.describe(), name, "each thread has its own"))


@wraps_if(lambda value: issubclass(type(value), threading.local), order=80)
def _wrap_thread_local(attempt: Attempt, value: threading.local, source: Source) -> VariableTracker:
    cls = type(value)
    if _C.thread_dict(value) is None:
        return attempt.values.opaque(value, source, "a threading.local that this thread hasn't accessed before")
    source.check_type(value)
    return ThreadLocalVariable(value, cls, source)
