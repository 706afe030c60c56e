"""Tensors whose ``.data`` is replaced during tracing, and which results depend on the data that they had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch


def history(fakes: Iterable[torch.Tensor], ends: Iterable[torch.Tensor] = ()) -> Iterator[Any]:
    """The nodes of autograd's graph that tensors depend on, each once, without AccumulateGrad nodes. The nodes of
    ``ends``, and those behind them, are left out."""
    seen = {each.grad_fn for each in ends}
    waiting = [each.grad_fn for each in fakes]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen and not hasattr(node, "variable"):
            seen.add(node)
            yield node
            waiting.extend(before for before, _ in node.next_functions)


def leaves_behind(fakes: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The leaves of autograd's graph that tensors depend on."""
    for node in history(fakes):
        for before, _ in node.next_functions:
            if hasattr(before, "variable"):
                yield before.variable


class ReplacedData:
    """The record of one graph."""

    def __init__(self) -> None:
        self.retired: list[torch.Tensor] = []
        """Fakes that represent no tensor any more. Kept alive, since trackers are looked up by the ids of fakes."""
        self.severed: list[tuple[torch.Tensor, int]] = []
        """Fakes of leaves whose data was replaced after results with a history were computed from them, with the step.
        In the graph no gradient reaches the leaf from such a result, so it may not be an output."""

    def cut_off(self, outputs: Iterable[torch.Tensor]) -> int:
        """The first step that replaced the ``.data`` of a tensor whose old data the outputs depend on; 0: none did."""
        behind = set(map(id, leaves_behind(outputs))) if self.severed else set()
        return min((step for fake, step in self.severed if id(fake) in behind), default=0)
