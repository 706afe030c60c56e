"""The trackers of an attempt's tensors, by their fake tensors."""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.fx

from dynamo_lite.variables.core.base import VariableTracker


class GraphTensor(VariableTracker):
    """A tensor: its node in the graph and its fake tensor."""

    __slots__ = ("node", "fake")
    node: torch.fx.Node
    fake: torch.Tensor


class KnownTensors:
    """Maps fake tensors to trackers, by identity: an operator that returns one of its operands returns its tracker."""

    def __init__(self) -> None:
        self._trackers: dict[int, GraphTensor] = {}

    def of(self, fake: object) -> GraphTensor | None:
        """The tracker of a fake tensor; None if it has none yet, or if the value is no tensor."""
        return self._trackers.get(id(fake))

    def add(self, fake: torch.Tensor, tracker: GraphTensor) -> None:
        """Note the tracker, which keeps the fake tensor alive."""
        self._trackers[id(fake)] = tracker

    def all(self) -> Iterable[GraphTensor]:
        """The trackers. One whose fake tensor was replaced is there for each."""
        return self._trackers.values()

    def clear(self) -> None:
        self._trackers.clear()
