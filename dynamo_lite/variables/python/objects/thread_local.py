"""Objects of ``threading.local``: what they have on the thread that runs."""

from __future__ import annotations

import functools
import threading
from typing import Any, NoReturn

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import UnsupportedAttribute
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.attributes import MISSING, class_lookup
from dynamo_lite.variables.core.base import VariableTracker, unsupported, wraps_if
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.python.containers.mapping import DictVariable

from .user_object import UserObjectVariable

_PLACE = "thread_dict"


class ThreadLocalVariable(UserObjectVariable):
    """One that this thread has begun already."""

    __slots__ = ()

    def existing_namespace(self) -> dict[str, Any] | None:
        return _C.thread_dict(self.value)

    def own_attribute_source(self, name: str) -> Source | None:
        assert self.source is not None
        place = self.source.child(_PLACE)
        if name in (self.existing_namespace() or ()):
            return place.child("dict_item", name).expect()
        place.check("dict_lacks", name)
        return None

    def getattr(self, tx: Translator, name: str) -> VariableTracker:
        if name == "__dict__":
            self._refuse(name)
        return super().getattr(tx, name)

    def setattr(self, tx: Translator, name: str, value: VariableTracker) -> None:
        if name == "__dict__":
            self._refuse(name)
        if self.cls is threading.local and class_lookup(self.cls, name) is MISSING:
            self.instance_set(tx, name, value)  # though its class tells of no dict
        else:
            super().setattr(tx, name, value)

    def delattr(self, tx: Translator, name: str) -> None:
        if name == "__dict__":
            self._refuse(name)
        super().delattr(tx, name)

    def namespace(self, tx: Translator) -> DictVariable:
        self._refuse("__dict__")

    def _refuse(self, name: str) -> NoReturn:
        unsupported(UnsupportedAttribute(self.describe(), name, "it is another one on each thread"))

    def store_attributes(self, cg: Codegen) -> None:
        for name in self.deleted:
            cg.call_with_top(threading.local.__delattr__, [functools.partial(cg.load_const, name)])
        for name, value in self.attrs.items():
            if value is not None:
                loads = [functools.partial(cg.load_const, name), functools.partial(cg.load, value)]
                cg.call_with_top(threading.local.__setattr__, loads)


@wraps_if(lambda value: issubclass(type(value), threading.local), order=80)
def _wrap_thread_local(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    cls = type(value)
    if _C.thread_dict(value) is None:
        return attempt.values.opaque(value, source, "a threading.local that this thread has not touched")
    if source.kind != "const":
        source.check("type", cls)
    return ThreadLocalVariable(value, cls, source)
