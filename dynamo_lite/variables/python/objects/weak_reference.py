"""``weakref.ref``: to objects of the program, and made inside."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NoReturn

from dynamo_lite import _C
from dynamo_lite.insight.break_reasons import UnknownCall, UnsupportedOperation
from dynamo_lite.records.source import Source
from dynamo_lite.variables.core.base import (
    Args,
    Kwargs,
    LazyVariable,
    NotConstant,
    VariableTracker,
    unsupported,
    wraps_if,
    wraps_type,
)
from dynamo_lite.variables.core.constant import ConstantVariable
from dynamo_lite.variables.core.lookup import type_name
from dynamo_lite.variables.core.protocols import Attempt, Codegen, Translator
from dynamo_lite.variables.core.registry import models, models_raw


class WeakReferenceVariable(VariableTracker):
    """A reference without a callback. ``of``: its referent, where it was made inside."""

    __slots__ = ("attempt", "value", "of")

    def __init__(
        self,
        value: Any = None,
        source: Source | None = None,
        of: VariableTracker | None = None,
        attempt: Attempt = None,
    ) -> None:
        self.attempt = attempt
        self.source = source
        self.value = value
        self.of = of

    def python_type(self) -> type:
        return weakref.ReferenceType

    def identity(self) -> Any:
        """An object has one reference without a callback."""
        of = self.of
        if of is None and self.source is not None and self.value() is not None:
            callback = self.value.__callback__
            self.source.child("c_attr", "__callback__").check("id", callback)
            of = self.as_found() if callback is None else None
        return self if of is None else (weakref.ref, of)

    def call(self, tx: Translator, args: Args, kwargs: Kwargs) -> VariableTracker:
        if args or kwargs:
            unsupported(UnsupportedOperation("a call with arguments", "a weak reference"))
        return self.referent(tx)

    def referent(self, tx: Translator) -> VariableTracker:
        """What it refers to, where that is known to be alive still: what the trace has let go of is dead in eager."""
        if self.of is not None:
            if not _is_alive(tx, self.of):
                unsupported(UnsupportedOperation("a call", "a weak reference to what may have died meanwhile"))
            return self.of
        target = _C.weak_referent(self.value)
        known = tx.attempt.values.memo.get(id(target))
        if target is not None and not (tx.effects.empty and _keeps_arguments(tx)):
            if known is None or not _is_alive(tx, known[1]):
                unsupported(UnsupportedOperation("a call", "a weak reference to what may have died meanwhile"))
        return self.as_found()

    def as_found(self) -> VariableTracker:
        """The referent as it was when the frame was called, whether it is alive still or not."""
        if self.of is not None:
            return self.of
        assert self.source is not None
        target = _C.weak_referent(self.value)
        place = self.source.child("weakref_target")
        if target is None:
            place.check("unbound")
            return ConstantVariable(None)
        return LazyVariable(self.attempt, target, place).realize()

    def compare(self, tx: Translator, symbol: str, other: VariableTracker) -> VariableTracker | None:
        """By referents, while they are alive."""
        if symbol not in ("==", "!=") or not isinstance(other, WeakReferenceVariable):
            return None
        one, another = self.call(tx, [], {}), other.call(tx, [], {})
        if tx.is_none(one) or tx.is_none(another):
            return ConstantVariable(tx.identical(self, other) is (symbol == "=="))
        return tx.compare(symbol, one, another)  # type: ignore[no-any-return]

    def reconstruct(self, cg: Codegen) -> None:
        """Of what is alive anyway: else the new code would hold it longer than the program does."""
        of = self.of
        assert of is not None
        kept = cg.has_made(of) if of.source is None else _is_kept(cg.attempt.effects, of.source)
        if not kept and not _is_variable(cg.attempt.innermost, of):
            raise NotConstant(self.describe())
        cg.call(weakref.ref, [lambda: cg.load(of)])


def _is_kept(effects: Any, source: Source | None) -> bool:
    """Whether the place where it was found, which is no variable, has it still."""
    if source is None or source.kind == "local":
        return False
    way = source.way()
    if any(place.kind == "weakref_target" for place in way):
        return False
    names = {scope.source: scope.writes for scope, _ in effects.written_globals}
    for each in effects.written:
        names[each.source] = getattr(each, "attrs", None)
    return all(_leaves(names, place, way[at + 1 :]) for at, place in enumerate(way[:-1]))


def _leaves(names: dict[Source, Any], place: Source, rest: tuple[Source, ...]) -> bool:
    """Whether what was written at a place, under these names, is none of what leads on from there."""
    if place not in names:
        return True
    item = next((each for each in rest if each.kind != "instance_dict"), None)
    return item is not None and item.kind == "dict_item" and names[place] is not None and item.arg not in names[place]


def _is_variable(root: Any, value: VariableTracker) -> bool:
    """Whether a variable of a stopped frame holds it."""
    while root is not None:
        if _has_variable(root, value):
            return True
        root = root.callee
    return False


def _is_alive(tx: Translator, value: VariableTracker) -> bool:
    """Whether a variable of a frame that is under way holds it, or a place that nothing was written to."""
    return _is_kept(tx.effects, value.source) or any(_has_variable(frame, value) for frame in _frames(tx))


def _frames(tx: Translator) -> Iterator[Any]:
    while tx is not None:
        yield tx
        tx = tx.parent


def _has_variable(frame: Any, value: VariableTracker) -> bool:
    values = (*frame.locals.values(), *(cell.content for cell in frame.cells.values() if cell.content is not None))
    return any(
        each is value or isinstance(each, LazyVariable) and each.is_realized and each.realize() is value
        for each in values
        if each is not None
    )


def _keeps_arguments(tx: Translator) -> bool:
    """Whether the frame has all that it was called with, but for what holds nothing."""
    *_, root = _frames(tx)
    kept = [*root.locals.values(), *(cell.content for cell in root.cells.values())]
    return all(any(each is one for one in kept) or _holds_nothing(each) for each in root.arguments)


def _holds_nothing(argument: VariableTracker) -> bool:
    return isinstance(argument, LazyVariable) and id(type(argument.value)) in _ATOMS


_ATOMS = frozenset(map(id, (int, float, complex, bool, str, bytes, type(None))))


@models(weakref.ref)
def _ref(tx: Translator, of: VariableTracker) -> VariableTracker:
    kind = of.python_type()
    if not kind.__weakrefoffset__:
        tx.raise_error(TypeError, f"cannot create weak reference to {type_name(kind)!r} object")
    made = WeakReferenceVariable(of=of)
    tx.attempt.provenance.created(made)
    return made


@wraps_type(weakref.ReferenceType)
def _wrap_reference(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    if source.kind == "const":
        return attempt.values.opaque(value, source, "a weak reference")
    source.check("type", weakref.ReferenceType)
    return WeakReferenceVariable(value, source, attempt=attempt)


# -- weak containers: what is in one depends on what is alive, so CPython reads and changes them -----------------------

_CONTAINERS = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)


@wraps_if(lambda value: issubclass(type(value), _CONTAINERS), order=9)
def _wrap_container(attempt: Attempt, value: Any, source: Source) -> VariableTracker:
    return attempt.values.opaque(value, source, "a weak container")  # type: ignore[no-any-return]


def _refuse_creation(tx: Translator, args: Args, kwargs: Kwargs) -> NoReturn:
    unsupported(UnknownCall(f"{args[0].describe()}.__init__()", "weak containers are created in CPython"))


for _each in _CONTAINERS:
    models_raw(_each.__dict__["__init__"], _refuse_creation)
