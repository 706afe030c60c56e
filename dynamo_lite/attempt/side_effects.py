"""The side effects of the traced program on pre-existing objects, which generated code replays after the graph.

Trackers hold the written values themselves. This record lists which trackers were mutated, and the writes to globals.
An attempt that is given up is dropped as a whole, so nothing is rolled back. Replayed effects are plain stores that run
no user code (user code is inlined), so only the last state of each place matters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import EffectInOperatorFunction, UnsupportedOperation
from dynamo_lite.records.guards import Guards
from dynamo_lite.variables.core.base import Planner, VariableTracker
from dynamo_lite.variables.core.interfaces import Effect, Globals

from .object_state import ObjectState
from .shared_results import SharedResults


class CallAfterGraph:
    """A noted effect: a call with values of the program."""

    def __init__(self, function: Callable[..., object], *args: VariableTracker) -> None:
        self.function = function
        self.args = args

    def replay(self, plan: Planner) -> None:
        plan.do(self.function, *self.args)


class OperatorFunction(NamedTuple):
    """A function that an operator runs, and the state that objects from outside had before it mutated them."""

    outside: set[VariableTracker]
    runs_once: bool
    mutated: dict[VariableTracker, ObjectState]
    globals: list[VariableTracker]
    """What it stored in globals."""


class SideEffects:
    """The record of one attempt."""

    def __init__(self, guards: Guards) -> None:
        self._guards = guards
        self.written: dict[VariableTracker, ObjectState | None] = {}
        """Mutated trackers in the order of their first mutation -> their state before it; None: replay in any case."""
        self.written_globals: dict[tuple[Globals[VariableTracker], str], VariableTracker | None] = {}
        """Scope and name -> the value that was stored last; None: the global was deleted."""
        self.noted: list[Effect[VariableTracker]] = []
        """The other events to replay."""
        self.count = 0
        """How many effects there were so far, on objects created during tracing too."""
        self._last: dict[VariableTracker | tuple[Globals[VariableTracker], str], int] = {}
        """Tracker, or scope and name -> the count at its last effect."""
        self._fixed: set[VariableTracker] = set()
        """Trackers of objects that the graph reads as they were before it."""
        self.shared_results = SharedResults()
        self._bodies: list[OperatorFunction] = []

    def close(self) -> None:
        self.noted.clear()
        self.written.clear()
        self.written_globals.clear()
        self._last.clear()
        self._fixed.clear()
        self.shared_results.close()

    @property
    def empty(self) -> bool:
        return not self.written and not self.written_globals

    def mutate(self, tracker: VariableTracker) -> None:
        """Record that the program is about to mutate an object. Guard that no other source in use reaches it."""
        self.count += 1
        self._last[tracker] = self.count
        self.shared_results.check_is_only_read(tracker)
        if tracker in self._fixed:
            self._refuse_fixed()
        for body in self._bodies:
            if tracker not in body.mutated and (tracker.source is not None or tracker in body.outside):
                body.mutated[tracker] = ObjectState(tracker)
        if tracker.source is not None and tracker not in self.written:
            self.written[tracker] = ObjectState(tracker)
            self._guards.distinct(tracker.source)

    def fix(self, trackers: Iterable[VariableTracker]) -> None:
        """Forbid effects on objects that the graph reads, since those are replayed after it."""
        self._fixed.update(trackers)
        if not self._fixed.isdisjoint(self.written):
            self._refuse_fixed()

    def _refuse_fixed(self) -> NoReturn:
        raise Unsupported(UnsupportedOperation("a write", "an attribute that the operators of a wrapper subclass read"))

    def last(self, tracker: VariableTracker) -> int:
        """The count at the last effect on a tracker; 0 if there was none."""
        return self._last.get(tracker, 0)

    def restate(self, tracker: VariableTracker) -> None:
        """Renew the state before the mutation: reading the object has shown more of it since."""
        if self.written.get(tracker) is not None:
            self.written[tracker] = ObjectState(tracker)

    @property
    def in_body(self) -> bool:
        """Whether the traced code is a function that an operator runs, perhaps several times."""
        return bool(self._bodies)

    def wrote_global(self, namespace: dict[str, Any]) -> bool:
        """Whether a dict of globals was written to."""
        return any(scope.namespace is namespace for scope, _ in self.written_globals)

    @contextlib.contextmanager
    def forbidden(self, outside: set[VariableTracker], runs_once: bool = False) -> Iterator[OperatorFunction]:
        """While a function that an operator runs is traced: break the graph if it mutates objects that have a source or
        are ``outside``, unless it restores them, or ``runs_once``, where the program calls it. Iterators don't record
        that they are advanced, so all are compared."""
        iterators = () if runs_once else (each for each in outside if each.is_iterator)
        body = OperatorFunction(outside, runs_once, {each: ObjectState(each) for each in iterators}, [])
        self._bodies.append(body)
        try:
            yield body
        finally:
            self._bodies.pop()
        if not runs_once and not all(before.is_current() for before in body.mutated.values()):
            self._refuse("it mutates an object from outside")

    def _refuse(self, effect: str) -> NoReturn:
        raise Unsupported(EffectInOperatorFunction(effect))

    def decorate(self, tracker: VariableTracker) -> None:
        """Record that attributes are set on an object. If the graph creates it, it must be a result of the graph."""
        if self._bodies:
            self._refuse("it sets attributes of a tensor")
        self.written.setdefault(tracker)

    def note(self, event: Effect[VariableTracker]) -> None:
        """Record an event to replay that changes nothing that tracing reads, so it needs no order among the effects."""
        if self._bodies:
            self._refuse("it has a side effect that can't be captured")
        self.noted.append(event)

    def note_call(self, function: Callable[..., object], *args: VariableTracker) -> None:
        """`note` a call with values of the program."""
        self.note(CallAfterGraph(function, *args))

    def write_global(self, scope: Globals[VariableTracker], name: str, value: VariableTracker | None) -> None:
        """Record the store of a global; None deletes it."""
        self.count += 1
        if not all(body.runs_once for body in self._bodies):
            self._refuse(f"it writes the global {name!r}")
        if value is not None:
            for body in self._bodies:
                body.globals.append(value)
        scope.writes[name] = value
        self._last[scope, name] = self.count
        self.written_globals[scope, name] = value

    @property
    def changed_trackers(self) -> list[VariableTracker]:
        """The trackers whose state differs from before, in the order in which they are replayed."""
        rows = sorted(self.written.items(), key=lambda pair: pair[0].replay_rank)
        return [tracker for tracker, before in rows if before is None or not before.is_current()]
