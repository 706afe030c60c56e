"""Results of cached functions that a trace computed itself, although eager would have taken them from the cache.

There every call with equal arguments returns the same object. So a trace may read such a container, and no more: before
one is mutated, or survives the graph, another attempt specializes the arguments of the call, and has the cache's own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator

from dynamo_lite.records.restart import specialize_before
from dynamo_lite.variables.core.base import VariableTracker


class SharedResults:
    """The results of one attempt."""

    def __init__(self) -> None:
        self._results: dict[Hashable, VariableTracker] = {}
        self._steps: dict[VariableTracker, int] = {}
        """Containers in results -> the step of the call that returned them first."""
        self.in_cached_call = False
        """Whether the body of a cached function is being traced: what it calls isn't called at each hit."""

    @contextlib.contextmanager
    def cached_call(self) -> Iterator[None]:
        """While the body of a cached function is traced."""
        before, self.in_cached_call = self.in_cached_call, True
        try:
            yield
        finally:
            self.in_cached_call = before

    def close(self) -> None:
        self._results.clear()
        self._steps.clear()

    def known(self, key: Hashable) -> VariableTracker | None:
        """The result of an earlier call with an equal key."""
        return self._results.get(key)

    def add(self, key: Hashable, result: VariableTracker, created: list[VariableTracker], step: int) -> None:
        """Record the result of a call. ``created``: the containers in it that exist in this trace alone."""
        self._results[key] = result
        for each in created:
            self._steps.setdefault(each, step)

    def check_is_only_read(self, tracker: VariableTracker) -> None:
        """Start another attempt if this is a container in a result: it would be mutated, or survive the graph."""
        step = self._steps.get(tracker)
        if step is not None:
            specialize_before(step)
