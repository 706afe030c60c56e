"""What the traced program did to objects that live outside of the trace: replayed after the graph.

Writes are kept on the trackers themselves; here is the list of which trackers to replay and the writes to globals. A
translation that is given up is dropped whole, so nothing is rolled back. What is replayed are plain stores that run no
code of the program's (what does is inlined), so only the last state of each place matters.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from dynamo_lite import _C
from dynamo_lite.exc import Unsupported
from dynamo_lite.insight.break_reasons import UnsupportedOperation

_ABSENT = object()


def _state(tracker: Any) -> list[Any]:
    """What a tracker says of its object, to be held against a later time."""
    found: list[Any] = []
    for name, value in slots(tracker):
        if type(value) is dict:  # not isinstance: the value may be the program's, and would be asked
            found += [dict, *value, *value.values()]
        elif type(value) in (list, deque):
            found += [list, *value]
        else:
            found.append(value)
            if name == "payload" and value is not None:  # the items of a class that derives from a container
                found += _state(value)
    return found


def slots(tracker: Any) -> Iterator[tuple[str, Any]]:
    """The names of a tracker's slots and what is in them now: one that is filled when it is read is not."""
    for cls in type(tracker).__mro__:
        for name in vars(cls).get("__slots__", ()):
            try:
                yield name, vars(cls)[name].__get__(tracker)
            except AttributeError:
                yield name, _ABSENT


def _looked_at(value: Any) -> Any:
    """A lazy value's tracker if it has one: to look at it now would guard it."""
    return value.realize() if getattr(value, "is_realized", True) else value


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if hasattr(type(one), "realize") and hasattr(type(other), "realize"):
        return _looked_at(one) is _looked_at(other)
    return type(one) is type(other) and isinstance(one, (str, int)) and one == other


def _unchanged(tracker: Any, before: list[Any]) -> bool:
    now = _state(tracker)
    return len(now) == len(before) and all(map(_same, now, before))


class _Body:
    """A function that an operator runs: what lies outside of it, and how that was before it was changed."""

    def __init__(self, outside: set[Any]) -> None:
        self.outside = outside
        self.changed: dict[Any, list[Any]] = {}


class SideEffects:
    """The trackers with a source that were written to, in the order of their first write."""

    def __init__(self, guards: Any, tracker: type) -> None:
        self._guards = guards
        self._tracker = tracker
        self._mutated: dict[Any, list[Any] | None] = {}
        """With what they were before; None where that makes no difference."""
        self._globals: dict[tuple[Any, str], Any] = {}
        self._notes: list[Any] = []
        self.count = 0
        """How many there were so far, of objects made inside too."""
        self._last: dict[Any, int] = {}
        self._fixed: set[Any] = set()
        """What code reads that the graph runs, as it was before the graph."""
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

    def mutate(self, tracker: Any) -> None:
        """``tracker`` is about to change. Its place is one of its own: no other known place may hold the object."""
        self.count += 1
        self._last[tracker] = self.count
        if tracker in self._fixed:
            self._refuse_fixed()
        for body in self._bodies:
            if tracker not in body.changed and (tracker.source is not None or tracker in body.outside):
                body.changed[tracker] = _state(tracker)
        if tracker.source is not None and tracker not in self._mutated:
            before = _state(tracker)
            self._let_go_of(before)
            self._mutated[tracker] = before
            self._guards.distinct(tracker.source)

    def fix(self, trackers: Iterable[Any]) -> None:
        """Code that the graph runs reads these: they may not change before it."""
        self._fixed.update(trackers)
        if not self._fixed.isdisjoint(self._mutated):
            self._refuse_fixed()

    def _refuse_fixed(self) -> NoReturn:
        raise Unsupported(UnsupportedOperation("a write", "what operators of a tensor's class read"))

    def check_deallocation(self, values: Iterable[Any]) -> None:
        """Real objects may lose their last reference to what is written. A finalizer runs then, among the program's
        other effects; those of the trace are stored after the graph, so CPython is to write this one. Guards tell
        where another call finds such an object."""
        for value in values:
            if _C.is_seen_to_die(value):
                kind = type(value).__name__
                raise Unsupported(UnsupportedOperation("letting go of what is seen to die", f"a {kind}"))

    def _let_go_of(self, state: list[Any]) -> None:
        """The same of what a tracker says of its object: the program's own are in it too, and are not asked."""
        self.check_deallocation(each.value for each in self._values(state))

    def _values(self, state: list[Any]) -> Iterator[Any]:
        """Those of real objects."""
        known = (each for each in state if issubclass(type(each), self._tracker))
        return (each for each in known if hasattr(each, "value"))

    def guard_deallocations(self) -> None:
        """Assume that nobody sees die what is written over, and what containers and cells have lost by now."""
        for tracker, before in self._mutated.items():
            tracker.guard_deallocations()
            kept = {id(_looked_at(each)) for each in self._values(_state(tracker))} if before else ()
            for each in self._values(before or []):
                if each.source is not None and id(_looked_at(each)) not in kept:
                    each.source.check("dies_unseen")

    def last(self, tracker: Any) -> int:
        """The count at which ``tracker`` changed last; 0 if it did not."""
        return self._last.get(tracker, 0)

    def restate(self, tracker: Any) -> None:
        """More is known of what ``tracker`` was before it changed."""
        if self._mutated.get(tracker) is not None:
            before = self._mutated[tracker] = _state(tracker)
            self._let_go_of(before)

    @property
    def in_body(self) -> bool:
        """Whether what runs now may run any number of times."""
        return bool(self._bodies)

    @property
    def written(self) -> Iterable[Any]:
        """The trackers that were written to."""
        return self._mutated

    def wrote_global(self, namespace: Any) -> bool:
        """Whether a dict of globals was written to."""
        return any(scope.namespace is namespace for scope, _ in self._globals)

    def changed(self, source: Any) -> bool:
        """Whether what is at a place was changed inside."""
        return any(tracker.source is source for tracker in self._mutated)

    @contextlib.contextmanager
    def forbidden(self, outside: set[Any]) -> Iterator[None]:
        """What runs now may run any number of times: refuse effects that it leaves on what has a place in the program
        or is ``outside``."""
        body = _Body(outside)
        self._bodies.append(body)
        try:
            yield
        finally:
            self._bodies.pop()
        if not all(_unchanged(tracker, before) for tracker, before in body.changed.items()):
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise Unsupported(UnsupportedOperation("a side effect", "a function that an operator runs"))

    def decorate(self, tracker: Any) -> None:
        """Attributes are given to ``tracker``, which the graph may have made: then it is a result of the graph."""
        if self._bodies:
            self._refuse()
        self._mutated.setdefault(tracker)

    def note(self, event: Any) -> None:
        """Replay this too. It changes nothing that the trace reads, so it is no effect to be ordered."""
        if self._bodies:
            self._refuse()
        self._notes.append(event)

    @property
    def noted(self) -> Iterable[Any]:
        """What else is replayed."""
        return self._notes

    def write_global(self, scope: Any, name: str, value: Any) -> None:
        """Store a global; None deletes it."""
        self.count += 1
        if self._bodies:
            self._refuse()
        if name not in scope.writes:
            scope.source.check("dict_item_dies_unseen", name)
            self.check_deallocation([scope.namespace[name]] if name in scope.namespace else [])
        scope.writes[name] = value
        self._last[scope, name] = self.count
        self._globals[scope, name] = value

    @property
    def left(self) -> list[Any]:
        """The trackers of what is other than it was, in the order in which it is stored."""
        rows = sorted(self._mutated.items(), key=lambda pair: not pair[0].is_replayed_first)
        return [tracker for tracker, before in rows if before is None or not _unchanged(tracker, before)]

    @property
    def written_globals(self) -> list[tuple[Any, str]]:
        """Scopes and names."""
        return list(self._globals)

    def replay(self, cg: Any) -> None:
        """Emit the stores."""
        for tracker in self.left:
            tracker.replay(cg)
        for (scope, name), value in self._globals.items():
            if value is None:
                cg.delete_from(scope.namespace, name)
            else:
                cg.load(value)
                cg.store_into(scope.namespace, name)
        for event in self._notes:
            event.replay(cg)
