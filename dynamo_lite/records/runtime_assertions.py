"""Runtime assertions on tensor data that keep failing.

Each failure re-runs the frame in eager, so the call pays twice. After a few in a row the frame is recompiled with a
graph break at the assertion that fails.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dynamo_lite import logs
from dynamo_lite.insight.site import Site
from dynamo_lite.shapes.policy import SpecializationHistory

from .guards import Held

_IN_A_ROW = 8
_MAX_BREAKS = 12
"""How many graph breaks one frame gets for failing assertions."""


class RuntimeAssertion(NamedTuple):
    """The condition, and the truth value with which tracing continued."""

    tensor: Any
    truth: bool
    site: Site


class AssertionFailures:
    """Counts the failures in a row of one graph's runtime assertions."""

    def __init__(self, name: str, history: SpecializationHistory, validity: Held, sites: list[Site]) -> None:
        self._name = name
        self._history = history
        self._validity: Held | None = validity
        self._sites = sites
        self.count = 0

    def add(self, at: int) -> None:
        """Count a failure of this assertion. After some in a row, invalidate the entry."""
        self.count += 1
        history = self._history
        if self.count < _IN_A_ROW or self._validity is None or len(history.failing_assertions) >= _MAX_BREAKS:
            return
        logs.recompiles.info("%s will be recompiled: a runtime assertion on its data keeps failing", self._name)
        history.failing_assertions.add(self._sites[at])
        self._validity = None
