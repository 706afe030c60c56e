"""Pre-existing ``weakref.ref`` objects; weak proxies and containers, which break the graph."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import FailsInPython, NotCreated, ReferentMayBeDead
from dynamo_lite.plan.rows import Value
from dynamo_lite.sources.identity import identity
from dynamo_lite.sources.source import Source
from dynamo_lite.variables.core.base import (
    Args,
    Attempt,
    Kwargs,
    NotConstant,
    Planner,
    Translator,
    VariableTracker,
    unsupported,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.inert import INERT_TYPE_IDS
from dynamo_lite.variables.core.registry import models, models_raw
from dynamo_lite.variables.core.wrapping import LazyVariable, wraps_if, wraps_type

from .user_object import compare_as


class WeakReferenceVariable(VariableTracker):
    """A weak reference. ``target``: the referent of a reference created during tracing."""

    __slots__ = ("attempt", "value", "target")
    exact_type = weakref.ReferenceType

    def __init__(
        self,
        value: Any = None,
        source: Source | None = None,
        target: VariableTracker | None = None,
        attempt: Attempt | None = None,
    ) -> None:
        self.attempt = attempt
        self.source = source
        self.value = value
        self.target = target

    def identity(self) -> Any:
        """All references to an object without a callback are one object."""
        target = self.target
        if target is None and self.source is not None and self.value() is not None:
            callback = self.value.__callback__
            self.source.child("c_attr", "__callback__").check("id", callback)
            target = self.referent_at_entry() if callback is None else None
        return self if target is None else (weakref.ref, target)

    def key(self) -> Any:
        """A reference hashes and compares as its referent."""
        identity = self.identity()
        if identity is self or not compare_as(identity[1].python_type(), object):
            raise NotConstant(self.describe())
        return identity

    def guard_key(self, tx: Translator) -> None:
        self.referent(tx).guard_key(tx)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if args or kwargs:
            unsupported(FailsInPython("the call of a weak reference", "it takes no arguments"))
        return self.referent(tx)

    def referent(self, tx: Translator) -> VariableTracker:
        """The referent, None if it is deallocated. Breaks the graph if the traced code may have dropped the last strong
        reference to it: eager would deallocate it, while the trace keeps it alive."""
        if self.target is not None:
            source = self.target.source
            if source is None or not (self._is_undisturbed(tx) or _is_still_at(tx, source)):
                unsupported(ReferentMayBeDead())
            return self.target
        referent = _C.weak_referent(self.value)
        known = tx.attempt.values.memo.get(identity(referent))
        if referent is not None and not self._is_undisturbed(tx):
            if known is None or not _is_still_at(tx, known[1].source):
                unsupported(ReferentMayBeDead())
        return self.referent_at_entry()

    @staticmethod
    def _is_undisturbed(tx: Translator) -> bool:
        """Whether the traced code has dropped no reference that existed before it."""
        return tx.effects.empty and _keeps_arguments(tx)

    def referent_at_entry(self) -> VariableTracker:
        """The referent at the call of the frame, even if it may be deallocated by now."""
        if self.target is not None:
            return self.target
        assert self.source is not None and self.attempt is not None
        referent = _C.weak_referent(self.value)
        source = self.source.child("weakref_target")
        if referent is None:
            source.check("unbound")
            return ConstantVariable(None)
        return LazyVariable(self.attempt, referent, source).realize()

    def construct(self, plan: Planner) -> Value:
        raise NotConstant(self.describe())  # loading the referent would keep it alive


@models(weakref.ref)
def _create(tx: Translator, of: VariableTracker, callback: VariableTracker | None = None, /) -> VariableTracker:
    """``weakref.ref(obj)`` of a pre-existing object, which is alive."""
    if of.source is None or (callback is not None and not tx.is_none(callback)):
        unsupported(NotCreated("a weak reference", "it has a callback, or refers to an object created during tracing"))
    if not of.python_type().__weakrefoffset__:
        unsupported(FailsInPython("weakref.ref()", "its argument has no weak references"))
    created = WeakReferenceVariable(target=of)
    tx.attempt.provenance.created(created)
    return created


# -- liveness: which strong references the traced code leaves ----------------------------------------------------------


def _is_still_at(tx: Translator, source: Source | None) -> bool:
    """Whether an object at this source is still alive: a variable holds it, or an object on the way to it from which on
    nothing is mutated. The frame itself holds its globals and closure, but not its arguments."""
    if source is None:
        return False
    mutated = {each.source for each in tx.effects.written}
    mutated.update(scope.source for scope, _ in tx.effects.written_globals)
    held = {each.source for each in _variables(tx)}
    path = source.way()
    for at in reversed(range(len(path))):
        if path[at] in held or (at == 0 and path[at].kind != "local"):
            return True
        if path[at].kind == "weakref_target" or (at and path[at - 1] in mutated):
            return False
    return False


def _variables(tx: Translator) -> Iterator[VariableTracker]:
    """The values of the local variables of all active frames."""
    frame: Translator | None = tx
    while frame is not None:
        yield from (each.known() for each in frame.locals.values())
        yield from (cell.content.known() for cell in frame.cells.values() if cell.content is not None)
        frame = frame.parent


def _keeps_arguments(tx: Translator) -> bool:
    """Whether the root frame's variables still hold all arguments that can refer to other objects."""
    root: Any = tx
    while root.parent is not None:
        root = root.parent
    held = [*root.locals.values(), *(cell.content for cell in root.cells.values())]
    return all(any(each is one for one in held) or _refers_to_nothing(each) for each in root.arguments)


def _refers_to_nothing(argument: VariableTracker) -> bool:
    return isinstance(argument, LazyVariable) and id(type(argument.value)) in INERT_TYPE_IDS


@wraps_type(weakref.ReferenceType)
def _wrap_reference(attempt: Attempt, value: weakref.ReferenceType[Any], source: Source) -> VariableTracker:
    if source.kind == "const":
        return attempt.values.opaque(value, source, "a weak reference")
    source.check("type", weakref.ReferenceType)
    return WeakReferenceVariable(value, source, attempt=attempt)


# -- weak containers and proxies, which break the graph: their content depends on which objects are alive --------------

_CONTAINERS = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)


@wraps_type(*weakref.ProxyTypes)
@wraps_if(lambda value: issubclass(type(value), _CONTAINERS), order=9)
def _wrap_proxy_or_container(attempt: Attempt, value: object, source: Source) -> VariableTracker:
    return attempt.values.opaque(value, source, "a weak proxy or container")


def _break_at_creation(tx: Translator, args: Args, kwargs: Kwargs) -> NoReturn:
    unsupported(NotCreated(args[0].describe(), "weak containers aren't traced"))


for _each in _CONTAINERS:
    models_raw(_each.__dict__["__init__"], _break_at_creation)
