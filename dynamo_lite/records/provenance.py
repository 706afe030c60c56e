"""At which step of the root frame a trace created what generated code may not be able to make.

Where a value can't be made after the graph, the next attempt breaks the graph before the step that created it, so that
CPython makes it. Exceptions are there with the step that raised them first, nodes of autograd's graph with the step
that recorded them, or that freed them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from .replaced_data import history


class Provenance:
    """The record of one attempt. ``step``: the one that the root frame is at."""

    def __init__(self) -> None:
        self.step = 0
        self._created: dict[Any, int] = {}
        self._generators: dict[Any, int] = {}
        self._leaves: dict[Any, int] = {}
        self._raised: dict[Any, int] = {}
        self._recorded: dict[Any, int] = {}
        self._freed: dict[Any, int] = {}
        self.kept_on_ctx: list[Any] = []
        """Mutable objects created during tracing that a traced backward reads through ``ctx``."""

    def close(self) -> None:
        for each in (self._created, self._generators, self._leaves, self._raised, self._recorded, self._freed):
            each.clear()
        self.kept_on_ctx.clear()

    def step_of(self, value: Any) -> int:
        """The step at which CPython is to make a value; 0: none is known."""
        ledgers = (self._generators, self._leaves, self._created, self._raised)
        return next((steps[value] for steps in ledgers if value in steps), 0)

    # -- values --------------------------------------------------------------------------------------------------------

    def created(self, value: Any, step: int | None = None) -> None:
        """A value is created at this step, as a rule the current one."""
        self._created[value] = self.step if step is None else step

    def created_with(self, value: Any, other: Any) -> None:
        """A value can be made only where another one was created."""
        self._created[value] = self._created[other]

    def shared(self, value: Any) -> None:
        """A value is made to share its memory at this step, if it was not created, or made so, before."""
        self._created.setdefault(value, self.step)

    def is_created(self, value: Any) -> bool:
        return value in self._created

    def discard(self, value: Any) -> bool:
        """The program is done with a value. Whether it was created during tracing."""
        return self._created.pop(value, None) is not None

    def all_of(self, kind: type) -> list[Any]:
        """The values of a kind, in the order of their creation."""
        return [each for each in self._created if isinstance(each, kind)]

    # -- generators ----------------------------------------------------------------------------------------------------

    def created_generator(self, generator: Any) -> None:
        self._generators[generator] = self.step

    @property
    def generators(self) -> Iterable[Any]:
        """Those that were created during tracing."""
        return self._generators

    # -- leaves --------------------------------------------------------------------------------------------------------

    def created_leaf(self, tensor: Any) -> None:
        """A tensor that was created during tracing comes to require gradients."""
        self._leaves[tensor] = self.step

    def is_created_leaf(self, tensor: Any) -> bool:
        return tensor in self._leaves

    @property
    def first_leaf(self) -> Any:
        """The first such leaf, None if there is none."""
        return next(iter(self._leaves), None)

    # -- exceptions ----------------------------------------------------------------------------------------------------

    def raised(self, error: Any, step: int) -> None:
        """The program raises an exception at this step, maybe again."""
        self._raised.setdefault(error, step)

    def raised_at(self, error: Any, otherwise: int) -> int:
        """The step that raised it first."""
        return self._raised.get(error, otherwise)

    def was_raised(self, error: Any) -> bool:
        return error in self._raised

    # -- autograd's graph ----------------------------------------------------------------------------------------------

    def recorded(self, node: Any) -> None:
        """A node of autograd's graph is recorded."""
        self._recorded[node] = self.step

    def freed(self, nodes: Iterable[Any]) -> None:
        """A call frees nodes of autograd's graph."""
        self._freed.update(dict.fromkeys(nodes, self.step))

    def first_freed_at(self, tensor: torch.Tensor) -> int:
        """The first step at which a call frees what a tensor depends on; 0: none does."""
        if not self._freed:
            return 0
        return min((self._freed[node] for node in history([tensor]) if node in self._freed), default=0)

    def first_unrelated_step(self, tensors: Iterable[torch.Tensor]) -> int | None:
        """The first step at which something is made that shares no history with what was made first; None: these all
        share one."""
        groups: list[set[Any]] = []
        for tensor in tensors:
            mine = {node for node in history([tensor]) if node in self._recorded}
            shared = [group for group in groups if not group.isdisjoint(mine)]
            groups = [group for group in groups if group not in shared]
            groups += [mine.union(*shared)] if mine else []
        firsts = sorted({min(self._recorded[node] for node in group) for group in groups})
        return firsts[1] if len(firsts) > 1 else None
