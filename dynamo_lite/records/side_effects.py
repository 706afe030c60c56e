"""The side effects of the traced program on pre-existing objects, which generated code replays after the graph.

Trackers hold the written values themselves. This record lists which trackers were mutated, and the writes to globals.
An attempt that is given up is dropped as a whole, so nothing is rolled back. Replayed effects are plain stores that run
no user code (user code is inlined), so only the last state of each place matters.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn, Protocol

from dynamo_lite import _C
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import EffectInOperatorFunction, ObservableDeallocation, UnsupportedOperation

from .guards import Guards
from .source import Source

_ABSENT = object()


class Tracked(Protocol):
    """The tracker of an object that may be mutated."""

    is_replayed_first: bool

    @property
    def source(self) -> Source | None: ...

    def guard_deallocations(self) -> None: ...


class Scope(Protocol):
    """A namespace of globals, with the values written so far."""

    namespace: dict[str, Any]
    source: Source
    writes: dict[str, Any]


def _state(tracker: Any) -> list[Any]:
    """A snapshot of what a tracker records of its object, to be compared with a later one."""
    found: list[Any] = []
    for name, value in slots(tracker):
        if type(value) is dict:  # isinstance would read `__class__` of user objects
            found += [dict, *value, *value.values()]
        elif type(value) in (list, deque):
            found += [list, *value]
        else:
            found.append(value)
            if name == "payload" and value is not None:  # the items of an instance that derives from a container
                found += _state(value)
    return found


def slots(tracker: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of a tracker's slots. A slot that is computed when first read is not computed."""
    for cls in type(tracker).__mro__:
        for name in vars(cls).get("__slots__", ()):
            try:
                yield name, vars(cls)[name].__get__(tracker)
            except AttributeError:
                yield name, _ABSENT


def _realized(value: Any) -> Any:
    """The tracker of a lazy value that is realized. Realizing one here would add guards."""
    return value.realize() if getattr(value, "is_realized", True) else value


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if hasattr(type(one), "realize") and hasattr(type(other), "realize"):
        return _realized(one) is _realized(other)
    return type(one) is type(other) and isinstance(one, (str, int)) and one == other


def _unchanged(tracker: Any, before: list[Any]) -> bool:
    now = _state(tracker)
    return len(now) == len(before) and all(map(_same, now, before))


class _Body:
    """A function that an operator runs, and the state of the objects outside it before they were mutated."""

    def __init__(self, outside: set[Any]) -> None:
        self.outside = outside
        self.mutated: dict[Any, list[Any]] = {}


class SideEffects:
    """The record of one attempt. ``tracker``: the class of trackers."""

    def __init__(self, guards: Guards, tracker: type) -> None:
        self._guards = guards
        self._tracker = tracker
        self._mutated: dict[Any, list[Any] | None] = {}
        """Mutated trackers in the order of their first mutation -> their state before it; None: replay in any case."""
        self._globals: dict[tuple[Scope, str], Any] = {}
        self._notes: list[Any] = []
        self.count = 0
        """How many effects there were so far, on objects created during tracing too."""
        self._last: dict[Any, int] = {}
        """Tracker, or scope and name -> the count at its last effect."""
        self._fixed: set[Any] = set()
        """Trackers of objects that the graph reads as they were before it."""
        self._bodies: list[_Body] = []

    def close(self) -> None:
        self._notes.clear()
        self._mutated.clear()
        self._globals.clear()
        self._last.clear()
        self._fixed.clear()

    @property
    def empty(self) -> bool:
        return not self._mutated and not self._globals

    def mutate(self, tracker: Tracked) -> None:
        """Record that the program is about to mutate an object. Guard that no other source in use reaches it."""
        self.count += 1
        self._last[tracker] = self.count
        if tracker in self._fixed:
            self._refuse_fixed()
        for body in self._bodies:
            if tracker not in body.mutated and (tracker.source is not None or tracker in body.outside):
                body.mutated[tracker] = _state(tracker)
        if tracker.source is not None and tracker not in self._mutated:
            before = _state(tracker)
            self._check_dropped(before)
            self._mutated[tracker] = before
            self._guards.distinct(tracker.source)

    def fix(self, trackers: Iterable[Tracked]) -> None:
        """Forbid effects on objects that the graph reads, since those are replayed after it."""
        self._fixed.update(trackers)
        if not self._fixed.isdisjoint(self._mutated):
            self._refuse_fixed()

    def _refuse_fixed(self) -> NoReturn:
        raise Unsupported(UnsupportedOperation("a write", "an attribute that the operators of a wrapper subclass read"))

    def check_deallocation(self, values: Iterable[Any]) -> None:
        """Break the graph if overwriting one of these objects may deallocate it observably: a finalizer must run among
        the program's other effects, but the recorded ones are replayed after the graph."""
        for value in values:
            if _C.is_seen_to_die(value):
                raise Unsupported(ObservableDeallocation(type(value).__name__))

    def _check_dropped(self, state: list[Any]) -> None:
        """`check_deallocation` for the objects in a tracker's state. It may have user objects beside trackers."""
        self.check_deallocation(each.value for each in self._values(state))

    def _values(self, state: list[Any]) -> Iterator[Any]:
        """The trackers of real objects in a state."""
        trackers = (each for each in state if issubclass(type(each), self._tracker))
        return (each for each in trackers if hasattr(each, "value"))

    def guard_deallocations(self) -> None:
        """Guard that the deallocation of overwritten values, and of items dropped from containers, is unobservable."""
        for tracker, before in self._mutated.items():
            tracker.guard_deallocations()
            kept = {id(_realized(each)) for each in self._values(_state(tracker))} if before else ()
            for each in self._values(before or []):
                if each.source is not None and id(_realized(each)) not in kept:
                    each.source.check("dies_unseen")

    def last(self, tracker: Any) -> int:
        """The count at the last effect on a tracker; 0 if there was none."""
        return self._last.get(tracker, 0)

    def restate(self, tracker: Any) -> None:
        """Renew the state before the mutation: reading the object has shown more of it since."""
        if self._mutated.get(tracker) is not None:
            before = self._mutated[tracker] = _state(tracker)
            self._check_dropped(before)

    @property
    def in_body(self) -> bool:
        """Whether the traced code is a function that an operator runs, perhaps several times."""
        return bool(self._bodies)

    @property
    def written(self) -> Iterable[Any]:
        """The trackers that were mutated."""
        return self._mutated

    def wrote_global(self, namespace: Any) -> bool:
        """Whether a dict of globals was written to."""
        return any(scope.namespace is namespace for scope, _ in self._globals)

    def changed(self, source: Any) -> bool:
        """Whether the object at a source was mutated."""
        return any(tracker.source is source for tracker in self._mutated)

    @contextlib.contextmanager
    def forbidden(self, outside: set[Any]) -> Iterator[None]:
        """While a function that an operator runs is traced: break the graph if it mutates objects that have a source or
        are ``outside``, unless it restores them."""
        body = _Body(outside)
        self._bodies.append(body)
        try:
            yield
        finally:
            self._bodies.pop()
        if not all(_unchanged(tracker, before) for tracker, before in body.mutated.items()):
            self._refuse("it mutates an object from outside")

    def _refuse(self, effect: str) -> NoReturn:
        raise Unsupported(EffectInOperatorFunction(effect))

    def decorate(self, tracker: Any) -> None:
        """Record that attributes are set on an object. If the graph creates it, it must be a result of the graph."""
        if self._bodies:
            self._refuse("it sets attributes of a tensor")
        self._mutated.setdefault(tracker)

    def note(self, event: Any) -> None:
        """Record an event to replay that changes nothing that tracing reads, so it needs no order among the effects."""
        if self._bodies:
            self._refuse("it has an effect outside the program's data")
        self._notes.append(event)

    @property
    def noted(self) -> Iterable[Any]:
        """The other events to replay."""
        return self._notes

    def write_global(self, scope: Scope, name: str, value: Any) -> None:
        """Record the store of a global; None deletes it."""
        self.count += 1
        if self._bodies:
            self._refuse(f"it writes the global {name!r}")
        if name not in scope.writes:
            scope.source.check("dict_item_dies_unseen", name)
            self.check_deallocation([scope.namespace[name]] if name in scope.namespace else [])
        scope.writes[name] = value
        self._last[scope, name] = self.count
        self._globals[scope, name] = value

    @property
    def changed_trackers(self) -> list[Any]:
        """The trackers whose state differs from before, in the order in which they are replayed."""
        rows = sorted(self._mutated.items(), key=lambda pair: not pair[0].is_replayed_first)
        return [tracker for tracker, before in rows if before is None or not _unchanged(tracker, before)]

    @property
    def written_globals(self) -> Mapping[tuple[Scope, str], Any]:
        """Scope and name -> the value that was stored last; None: the global was deleted."""
        return self._globals
