"""Small classes of ``torch.autograd.Function`` from which tests derive their own."""

from __future__ import annotations

import torch


class Twice(torch.autograd.Function):
    """Doubles its argument. The classes that derive from it define the backward."""

    @staticmethod
    def forward(ctx, x):
        return x * 2


class Doubled(torch.autograd.Function):
    """Saves its argument, though this backward doesn't read it."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def with_backward(backward):
    """Returns a Function with this backward: ``backward(gradient, x)``."""

    class Function(Doubled):
        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return backward(gradient, x)

    return Function
