"""What the traced program did to objects that live outside of the trace: replayed after the graph.

Writes are kept on the trackers themselves; here is the list of which trackers to replay and the writes to globals. A
translation that is given up is dropped whole, so nothing is rolled back. What is replayed are plain stores that run no
code of the program's (what does is inlined), so only the last state of each place matters.
"""

from __future__ import annotations

from typing import Any


class SideEffects:
    """The trackers with a source that were written to, in the order of their first write."""

    def __init__(self, guards: Any) -> None:
        self._guards = guards
        self._mutated: dict[Any, None] = {}
        self._globals: dict[tuple[Any, str], Any] = {}
        self._notes: list[Any] = []
        self.count = 0
        """How many there were so far, of objects made inside too."""

    def close(self) -> None:
        self._notes.clear()
        self._mutated.clear()
        self._globals.clear()

    @property
    def empty(self) -> bool:
        return not self._mutated and not self._globals

    def mutate(self, tracker: Any) -> None:
        """``tracker`` is about to change. Its place is one of its own: no other known place may hold the object."""
        self.count += 1
        if tracker.source is not None and tracker not in self._mutated:
            self._mutated[tracker] = None
            self._guards.distinct(tracker.source)

    def changed(self, source: Any) -> bool:
        """Whether what is at a place was changed inside."""
        return any(tracker.source is source for tracker in self._mutated)

    def decorate(self, tracker: Any) -> None:
        """Attributes are given to ``tracker``, which the graph may have made: then it is a result of the graph."""
        self._mutated.setdefault(tracker)

    def note(self, event: Any) -> None:
        """Replay this too. It changes nothing that the trace reads, so it is no effect to be ordered."""
        self._notes.append(event)

    def write_global(self, scope: Any, name: str, value: Any) -> None:
        """Store a global; None deletes it."""
        self.count += 1
        scope.writes[name] = value
        self._globals[scope, name] = value

    def replay(self, cg: Any) -> None:
        """Emit the stores."""
        for tracker in self._mutated:
            tracker.replay(cg)
        for (scope, name), value in self._globals.items():
            if value is None:
                cg.delete_from(scope.namespace, name)
            else:
                cg.load(value)
                cg.store_into(scope.namespace, name)
        for event in self._notes:
            event.replay(cg)
