"""Initializations of lazy modules that a trace reached, which may run for real once the trace is complete.

The next attempt then finds initialized modules, so that its entry serves the later calls too. The program can't observe
that they ran before the graph if no operator before them draws random numbers or may fail, and if it hasn't read the
modules before.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch.fx


class Initializations:
    """The record of one attempt."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []
        self._seen: set[torch.fx.Node] = set()
        self._may_run = True
        self.classes: set[type] = set()
        """The classes that the initializations used."""

    def close(self) -> None:
        self._calls.clear()
        self._seen.clear()
        self.classes.clear()

    def begin(self, nodes: Iterable[torch.fx.Node], call: Callable[[], object] | None) -> None:
        """Note an initialization that the trace reaches. ``nodes``: the graph's so far; ``call``: runs it for real;
        None if it must not run."""
        before = all(node in self._seen or draws_nothing(node.op, node.target) for node in nodes)
        self._may_run = self._may_run and call is not None and before
        if call is not None:
            self._calls.append(call)

    def end(self, nodes: Iterable[torch.fx.Node], classes: set[type]) -> None:
        """Note that the initialization has been traced."""
        self._seen.update(nodes)
        self.classes |= classes

    def run(self) -> bool:
        """Run them all. Returns False if there are none, or if they must not run."""
        if not self._calls or not self._may_run:
            return False
        for call in self._calls:
            call()
        return True


def draws_nothing(op: str, target: Any) -> bool:
    """Whether a node is known to draw no random numbers."""
    if op not in ("call_function", "call_method"):
        return op in ("placeholder", "output")
    name = getattr(target, "__name__", target)
    if getattr(operator, str(name), None) is target or target is torch._C._set_grad_enabled:
        return True
    packet = getattr(torch.ops.aten, str(name).removesuffix("_"), None)
    if packet is None:
        return False
    overloads = [getattr(packet, each) for each in packet.overloads()]
    return not any(torch.Tag.nondeterministic_seeded in each.tags for each in overloads)


@functools.cache
def draws_by_tag(target: Any) -> bool:
    """Whether a node's target is an operator of torch's that draws random numbers."""
    packet = getattr(torch.ops.aten, str(getattr(target, "__name__", target)), None)
    overloads = [] if packet is None else [getattr(packet, each) for each in packet.overloads()]
    return any(torch.Tag.nondeterministic_seeded in each.tags for each in overloads)
