"""The autocast state in which a backward runs: that of the call of ``backward``, usually none."""

from __future__ import annotations

import contextlib

import pytest
import torch

import dynamo_lite as dl
from programs import tensor


def autocast():
    return torch.autocast("cpu", dtype=torch.bfloat16)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient.float() @ w.t(), x.t() @ gradient.float()


class ByType(Product):
    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient.float() @ w.t() * (2 if (w @ w).dtype is torch.float32 else 3), None


class Asks(Product):
    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient.float() @ w.t() * (2 if torch.is_autocast_enabled("cpu") else 3), None


class Marked(Product):
    """As torch's own decorators have it: in the autocast of the forward."""

    forward = staticmethod(torch.amp.custom_fwd(Product.forward, device_type="cpu"))

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


class MarkedToCast(Marked):
    forward = staticmethod(torch.amp.custom_fwd(Product.forward, device_type="cpu", cast_inputs=torch.float32))


def beside_eager(program, around=contextlib.nullcontext, backward_in=contextlib.nullcontext):
    rows = []
    for run in (program, dl.compile(program, backend="eager")):
        for seed in range(2):
            x, w = tensor(4, 3, seed=seed, grad=True), tensor(3, 3, seed=9, grad=True)
            with around():
                y = run(x, w)
            with backward_in():
                y.float().sum().backward()
            rows.append((y.detach(), x.grad, w.grad))
    torch.testing.assert_close(rows[2:], rows[:2], rtol=0, atol=0)


@pytest.mark.parametrize("function", [Product, ByType, Asks, Marked, MarkedToCast])
def test_autocast_inside(function):
    def fn(x, w):
        with autocast():
            y = function.apply(x, w)
        return y * 2

    beside_eager(fn)


@pytest.mark.parametrize("function", [Product, ByType, Asks, Marked, MarkedToCast])
def test_autocast_around(function):
    beside_eager(lambda x, w: function.apply(x, w) * 2, around=autocast)


@pytest.mark.parametrize("function", [Product, Asks, Marked, MarkedToCast])
def test_autocast_around_the_backward(function):
    beside_eager(lambda x, w: function.apply(x, w) * 2, backward_in=autocast)


def multiplied(w):
    return lambda gradient: gradient @ w.detach()


def by_autocast(w):
    return lambda gradient: gradient * (2 if torch.is_autocast_enabled("cpu") else 3)


@pytest.mark.parametrize(
    ("make", "backward_in"),
    [(multiplied, contextlib.nullcontext), (by_autocast, contextlib.nullcontext), (by_autocast, autocast)],
)
def test_hooks(make, backward_in):
    def fn(x, w):
        with autocast():
            y = x * 2
            y.register_hook(make(w))
            return y.sum() * w.sum()

    beside_eager(fn, backward_in=backward_in)
