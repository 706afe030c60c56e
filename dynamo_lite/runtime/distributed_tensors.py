"""Functions of ``DTensor`` that graphs call, with constants for all arguments that aren't tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from .collectives import waited


def is_distributed_class(cls: type) -> bool:
    """Whether a class is ``DTensor``. Compares names, since importing its module is slow and few programs need it."""
    return cls.__name__ == "DTensor" and cls.__module__ == "torch.distributed.tensor"


def with_constants(
    function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]
) -> Callable[[Any], torch.Tensor]:
    """``function(tensor, *args, **kwargs)`` as a function of the tensor alone. It waits for a local tensor that a
    collective is still computing."""

    def run(tensor: object) -> torch.Tensor:
        result = function(tensor, *args, **kwargs)
        return waited(result) if isinstance(result, AsyncCollectiveTensor) else result

    run.__name__ = run.__qualname__ = function.__name__
    return run
