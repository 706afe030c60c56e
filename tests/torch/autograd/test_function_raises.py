"""Functions whose forward raises, and callers that catch it."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, compiled_by, leaf, tensor, with_gradients


class Checks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        if not isinstance(factor, int):
            raise TypeError(f"no number: {factor}")
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor * 2, None


class ChecksInSetup(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return torch.rand_like(x) * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        if inputs[1] > 1:
            raise ValueError("too large")

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


def caught(x):
    try:
        y = Checks.apply(x * 1, "two")
    except TypeError as error:
        y = x * len(str(error))
    return Checks.apply(y, 3), torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_error_of_the_forward_is_caught(backend):
    check(compiled_by(backend)(with_gradients(caught)), leaf())
    check(compiled_by(backend)(caught), tensor(3))


def test_error_of_the_forward_leaves_the_frame():
    check(lambda x: Checks.apply(x * 1, None) + 1, leaf(), graphs=None)


def test_random_numbers_before_the_error_are_drawn():
    def fn(x):
        torch.manual_seed(0)
        try:
            x = ChecksInSetup.apply(x, 2)
        except ValueError:
            x = x * 5
        return x + torch.rand(3)

    check(with_gradients(fn), leaf(), graphs=None)
    with pytest.raises(dl.exc.Unsupported, match="forward raises after an operator"):
        dl.compile(fn, backend="eager", fullgraph=True)(leaf())
