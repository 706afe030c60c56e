"""Datasets for worker processes: items that compiled code computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import dynamo_lite as dl
from dynamo_lite import _C


def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    return gm.forward


@dl.compile(backend=backend)
def item(n: int) -> torch.Tensor:
    return torch.ones(2) * n + 1


def plain(n: int) -> torch.Tensor:
    return torch.ones(2) * n


class Items(torch.utils.data.Dataset):
    """Eight items: the tensor, and what a worker observes of the current owner."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        before = dl.counters.frames
        plain(n)
        seen = [dl.counters.frames - before, _C.current_owner() is not None, _C.hook_installed()]
        made = item(n)
        return made, torch.tensor([*seen, dl.counters.frames > 0, torch.utils.data.get_worker_info() is not None])


def totals(loader: Any, x: torch.Tensor) -> tuple[torch.Tensor, list[Any]]:
    """Returns the sum of all items, and the workers' observations."""
    seen = []
    for batch, each in loader:
        x = x + batch.sum()
        seen.extend(each.tolist())
    return x, seen


def make_item(n: int) -> list[float]:
    found: list[float] = item(n).tolist()
    return found
