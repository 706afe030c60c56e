"""Waits for results of eager collectives that a graph takes as inputs."""

from __future__ import annotations

from typing import Any

import torch


class _Wait(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, given: Any) -> torch.Tensor:
        tensor = given.trigger_wait()
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: object, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0]


def waited(given: Any) -> torch.Tensor:
    """The tensor in an ``AsyncCollectiveTensor``, after a wait; gradients flow back to the latter."""
    return _Wait.apply(given) if given.requires_grad else given.trigger_wait()


def not_waited(given: Any) -> torch.Tensor:
    """A tensor like the result of `waited`, for whose data the collective may still be running."""
    data: torch.Tensor = given.elem.detach()
    return data.requires_grad_().view_as(data) if given.requires_grad else given.elem
