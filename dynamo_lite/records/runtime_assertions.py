"""Conditions on data that graphs return and that don't hold, call after call.

Where one fails CPython runs the frame, after the graph: the call costs both. So after some failures in a row the frame
is compiled anew, with a break at the condition that fails.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dynamo_lite import logs
from dynamo_lite.insight.site import Site
from dynamo_lite.shapes.policy import SpecializationHistory

from .guards import Held

_IN_A_ROW = 8
_MOST = 12
"""Places of one frame at which it breaks for this."""


class RuntimeAssertion(NamedTuple):
    """A tensor, and the truth value that a trace went on with."""

    tensor: Any
    truth: bool
    site: Site


class AssertionFailures:
    """The failures in a row of one graph's conditions."""

    def __init__(self, name: str, known: SpecializationHistory, held: Held, sites: list[Site]) -> None:
        self._name = name
        self._known = known
        self._held: Held | None = held
        self._sites = sites
        self.count = 0

    def add(self, at: int) -> None:
        """This condition failed."""
        self.count += 1
        known = self._known
        if self.count < _IN_A_ROW or self._held is None or len(known.failing_assertions) >= _MOST:
            return
        logs.recompiles.info("%s is to be compiled anew: what it expects of its data is not so", self._name)
        known.failing_assertions.add(self._sites[at])
        self._held = None
