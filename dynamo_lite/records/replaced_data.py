"""Tensors whose `.data` is replaced during tracing: what is known of the data that they had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def history(fakes: Iterable[torch.Tensor], ends: Iterable[torch.Tensor] = ()) -> Iterator[Any]:
    """The nodes of autograd's graph that these hang on, each once, without those that are for leaves; not those of
    ``ends`` and what is behind them."""
    seen = {each.grad_fn for each in ends}
    waiting = [each.grad_fn for each in fakes]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen and not hasattr(node, "variable"):
            seen.add(node)
            yield node
            waiting.extend(before for before, _ in node.next_functions)


def leaves_behind(fakes: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The leaves of autograd's graph that these hang on."""
    for node in history(fakes):
        for before, _ in node.next_functions:
            if hasattr(before, "variable"):
                yield before.variable


class ReplacedData:
    """The records of one graph."""

    def __init__(self) -> None:
        self.retired: list[torch.Tensor] = []
        """Fakes that stand for nothing any more: trackers are found by the ids of fakes, so they live on."""
        self.severed: list[tuple[torch.Tensor, int]] = []
        """Fakes of leaves that got other data when something with a history had been made of them, and the step: no
        gradient comes to them that way, so nothing that hangs on it may leave."""

    def cut_off(self, left: Iterable[torch.Tensor]) -> int:
        """The step at which the `.data` of a tensor was replaced, where the results depend on what it was before; 0:
        there is none."""
        behind = set(map(id, leaves_behind(left))) if self.severed else set()
        found = [step for fake, step in self.severed if id(fake) in behind]
        return min(found, default=0)
