"""Waits for results of eager collectives that a graph takes as inputs, and a mode in which none begins."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode


class _Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Any) -> torch.Tensor:
        tensor = given.trigger_wait()
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0]


def waited(given: Any) -> torch.Tensor:
    """The tensor in an ``AsyncCollectiveTensor``, after a wait; gradients flow back to the latter."""
    return _Wait.apply(given) if given.requires_grad else given.trigger_wait()


def not_waited(given: Any) -> torch.Tensor:
    """A tensor like the result of `waited`, for whose data the collective may still be running."""
    data: torch.Tensor = given.elem.detach()
    return data.requires_grad_().view_as(data) if given.requires_grad else given.elem


class Communicates(BaseException):
    """A collective would have begun."""


class _NoCollectives(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace in ("c10d", "_c10d_functional"):
            raise Communicates
        return func(*args, **(kwargs or {}))


def without_collectives() -> contextlib.AbstractContextManager[object]:
    """A context in which collectives raise `Communicates`: other processes may not take part in them now."""
    return _NoCollectives() if dist.is_available() and dist.is_initialized() else contextlib.nullcontext()
