"""``weakref.ref``: to objects of the program, and made inside."""

from __future__ import annotations

import weakref
from typing import Any

from ..reasons import UnsupportedOperation
from ..source import Source
from .base import Args, Kwargs, LazyVariable, VariableTracker, unsupported, wraps_type
from .constant import ConstantVariable
from .registry import models


class WeakReferenceVariable(VariableTracker):
    """A reference without a callback. ``of``: its referent, where it was made inside."""

    __slots__ = ("value", "of")

    def __init__(self, value: Any, source: Source | None = None, of: VariableTracker | None = None) -> None:
        self.source = source
        self.value = value
        self.of = of

    def python_type(self) -> type:
        return weakref.ReferenceType

    def identity(self) -> Any:
        return self if self.of is None else (weakref.ref, id(self.of))

    def call(self, tx: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        """The referent, where it is known to be alive still: what the trace has let go of is dead in eager."""
        if args or kwargs or self.source is None:
            unsupported(UnsupportedOperation("a call", "a weak reference that was made inside"))
        target = self.value()
        place = self.source.child("weakref_target")
        if target is None:
            place.check("unbound")
            return ConstantVariable(None)
        known = tx.attempt.memo.get(id(target))
        if known is None or not tx.effects.empty or not _is_held(known[1].source):
            unsupported(UnsupportedOperation("a call", "a weak reference to what may have died meanwhile"))
        return LazyVariable(tx.attempt, target, place).realize()

    def reconstruct(self, cg: Any) -> None:
        cg.call(weakref.ref, [lambda: cg.load(self.of)])


def _is_held(source: Source | None) -> bool:
    """Whether something else than a variable of the frame holds what is found here."""
    if source is None or source.kind == "local":
        return False
    while source is not None:
        if source.kind == "weakref_target":
            return False
        source = source.parent
    return True


@models(weakref.ref)
def _ref(tx: Any, of: VariableTracker) -> VariableTracker:
    if of.source is None:
        unsupported(UnsupportedOperation("weakref.ref()", f"{of.describe()} that was made inside"))
    return WeakReferenceVariable(None, None, of)


@wraps_type(weakref.ReferenceType)
def _wrap_reference(attempt: Any, value: Any, source: Source) -> VariableTracker:
    if source.kind == "const":
        return attempt.opaque(value, source, "a weak reference")
    source.check("type", weakref.ReferenceType)
    return WeakReferenceVariable(value, source)
