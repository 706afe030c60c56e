"""Tensors that get other data inside of a graph: what is known of those that they had, and of memory given in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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


@dataclass
class Memory:
    """What is allocated before the graph for tensors that get parts of one piece of memory that is made inside."""

    given: Any
    """All of it. It is no input in the end: the graph fills each part."""
    fake: torch.Tensor
    """A tensor in the memory inside, which is to live on."""
    step: int
    """At which the first got a part."""
    parts: list[range]

    def is_free(self, part: range) -> bool:
        return all(part.stop <= each.start or each.stop <= part.start for each in self.parts)

    @property
    def is_full(self) -> bool:
        return sum(map(len, self.parts)) == self.given.value.numel()


class OtherData:
    """The records of one graph."""

    def __init__(self) -> None:
        self.retired: list[torch.Tensor] = []
        """Fakes that stand for nothing any more: trackers are found by the ids of fakes, so they live on."""
        self.severed: list[tuple[torch.Tensor, int]] = []
        """Fakes of leaves that got other data when something with a history had been made of them, and the step: no
        gradient comes to them that way, so nothing that hangs on it may leave."""
        self._memories: dict[int, Memory] = {}

    def memory_of(self, fake: torch.Tensor) -> Memory | None:
        """What is allocated for the memory that a tensor is in."""
        return self._memories.get(fake.untyped_storage()._cdata)

    def allocate(self, given: Any, fake: torch.Tensor, step: int) -> Memory:
        """The same, for the first tensor that gets a part of it."""
        found = self._memories[fake.untyped_storage()._cdata] = Memory(given, fake, step, [])
        return found

    def cut_off(self, left: Iterable[torch.Tensor]) -> int:
        """The step at which a tensor got other data, where what the graph leaves hangs on those that it had, or its new
        ones are not all that is in their memory; 0: there is none."""
        behind = set(map(id, leaves_behind(left))) if self.severed else set()
        found = [step for fake, step in self.severed if id(fake) in behind]
        found += [each.step for each in self._memories.values() if not each.is_full]
        return min(found, default=0)
