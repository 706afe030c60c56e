"""The steps of the root frame at which tracing created values that generated code may be unable to create.

If a live value can't be created after the graph, the next attempt breaks the graph before the step that created it, so
that CPython creates it. Also recorded are the steps that raised exceptions, and that recorded or freed nodes of
autograd's graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import torch
import torch.fx
from torch.autograd.graph import Node

from dynamo_lite.records.autograd_history import history
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.python.containers.iterators import GeneratorVariable

_Kind = TypeVar("_Kind")


class Provenance:
    """The record of one attempt. ``step``: the current one of the root frame."""

    def __init__(self) -> None:
        self.step = 0
        self._created: dict[VariableTracker, int] = {}
        self.generators: dict[GeneratorVariable, int] = {}
        self.leaves: dict[VariableTracker, int] = {}
        self._raised: dict[VariableTracker, int] = {}
        self._recorded: dict[Node, int] = {}
        self._freed: dict[Node, int] = {}
        self.hooked_views: dict[torch.fx.Node, int] = {}
        """Views that a hook was registered on, each with the step that did it."""

    def close(self) -> None:
        for each in (self._created, self.generators, self.leaves, self._raised, self._recorded, self._freed):
            each.clear()
        self.hooked_views.clear()

    def step_of(self, value: VariableTracker) -> int:
        """The step at which CPython must create a value; 0 if none is recorded."""
        ledgers: tuple[dict[Any, int], ...] = (self.generators, self.leaves, self._created, self._raised)
        return next((steps[value] for steps in ledgers if value in steps), 0)

    # -- values --------------------------------------------------------------------------------------------------------

    def created(self, value: VariableTracker, step: int | None = None) -> None:
        """Record that a value, or the last state of an existing one, is created at a step, by default the current
        one."""
        self._created[value] = self.step if step is None else step

    def created_with(self, value: VariableTracker, other: VariableTracker) -> None:
        """Record that a value is created with another one."""
        self._created[value] = self._created[other]

    def shared(self, value: VariableTracker) -> None:
        """Record that a value starts to share memory with an existing one, or to depend on its state, at this step,
        unless it is recorded already."""
        self._created.setdefault(value, self.step)

    def is_created(self, value: object) -> bool:
        return value in self._created

    def discard(self, value: VariableTracker) -> bool:
        """Forget a value that the program no longer uses. Whether it was created during tracing."""
        return self._created.pop(value, None) is not None

    def all_of(self, kind: type[_Kind]) -> list[_Kind]:
        """The values of a kind, in order of creation."""
        return [each for each in self._created if isinstance(each, kind)]

    # -- generators ----------------------------------------------------------------------------------------------------

    def created_generator(self, generator: VariableTracker) -> None:
        assert isinstance(generator, GeneratorVariable)
        self.generators[generator] = self.step

    # -- leaves --------------------------------------------------------------------------------------------------------

    def created_leaf(self, tensor: VariableTracker) -> None:
        """Record that a tensor which was created during tracing starts to require gradients."""
        self.leaves[tensor] = self.step

    def is_created_leaf(self, tensor: object) -> bool:
        return tensor in self.leaves

    # -- exceptions ----------------------------------------------------------------------------------------------------

    def raised(self, error: VariableTracker, step: int) -> None:
        """Record that the program raises an exception, unless it was raised before."""
        self._raised.setdefault(error, step)

    def raised_at(self, error: VariableTracker, otherwise: int) -> int:
        """The step that raised an exception first."""
        return self._raised.get(error, otherwise)

    def was_raised(self, error: VariableTracker) -> bool:
        return error in self._raised

    # -- autograd's graph ----------------------------------------------------------------------------------------------

    def recorded(self, node: Node) -> None:
        """Record that the current step adds a node to autograd's graph."""
        self._recorded[node] = self.step

    def freed(self, nodes: Iterable[Node]) -> None:
        """Record that the current step frees nodes of autograd's graph."""
        self._freed.update(dict.fromkeys(nodes, self.step))

    def first_freed_at(self, tensor: torch.Tensor) -> int:
        """The first step that frees nodes in a tensor's history; 0: none does."""
        if not self._freed:
            return 0
        return min((self._freed[node] for node in history([tensor]) if node in self._freed), default=0)

    def first_unrelated_step(self, tensors: Iterable[torch.Tensor]) -> int | None:
        """The first step whose results share no history with the earlier ones; None if all these tensors share one."""
        groups: list[set[Node]] = []
        for tensor in tensors:
            mine = {node for node in history([tensor]) if node in self._recorded}
            shared = [group for group in groups if not group.isdisjoint(mine)]
            groups = [group for group in groups if group not in shared]
            groups += [mine.union(*shared)] if mine else []
        firsts = sorted({min(self._recorded[node] for node in group) for group in groups})
        return firsts[1] if len(firsts) > 1 else None
