"""The nodes of autograd's graph that tensors depend on."""

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
