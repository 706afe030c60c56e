"""``ctx.mark_dirty``: Functions that mutate an argument and return it."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, leaf, tensor


class Scales(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.factor = factor
        ctx.mark_dirty(x)
        return x.mul_(factor)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        (result,) = ctx.saved_tensors
        return gradient * result


class Adds(torch.autograd.Function):
    """Writes to one of two, and gives another result too."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        ctx.set_materialize_grads(False)
        return x.add_(y), y * 2

    @staticmethod
    def backward(ctx, one, other):
        if one is None or other is None:
            return one, one if other is None else other * 2
        return one, one + other * 2


class Counts(torch.autograd.Function):
    """Writes to a buffer, which gets no gradient."""

    @staticmethod
    def forward(ctx, x, seen):
        seen.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        ctx.mark_dirty(seen)
        ctx.mark_non_differentiable(seen)
        return x * 2, seen

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * 2, None


class SetUp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@checked(leaf(), graphs=None, backward=True)
def test_what_is_returned_is_the_argument(x):
    y = x * 1
    z = Scales.apply(y, 3.0)
    return z is y, y.sin() * z, z + 1


@pytest.mark.parametrize("function", [Exp, SetUp])
def test_what_was_written_is_saved(function):
    def fn(x):
        y = x.sin()
        z = function.apply(y)
        return z is y, z * y

    check(fn, leaf(), backward=True, graphs=None)


@checked(leaf(), leaf(seed=1), graphs=None, backward=True)
def test_one_of_two(x, y):
    z = x * 1
    one, other = Adds.apply(z, y * 1)
    return one is z, one * other, z.cos()


@pytest.mark.parametrize("which", [0, 1])
def test_one_of_two_of_which_one_is_used(which):
    check(lambda x, y: Adds.apply(x * 1, y * 1)[which].sin(), leaf(), leaf(seed=1), backward=True, graphs=None)


@checked(leaf(), graphs=None, backward=True)
def test_a_view(x):
    y = x * 1
    z = Scales.apply(y[1:])
    return y * 2, z


@checked(leaf(2, 3), graphs=None, backward=True)
def test_one_of_several_views(x):
    first, second = (x * 1).unbind(0)
    return Scales.apply(first) + second


@checked(leaf(2, 3), torch.zeros(3), graphs=None, backward=True)
def test_a_buffer(x, seen):
    y, now = Counts.apply(x, seen)
    return y * now, now is seen, now.requires_grad


@checked(tensor(3), graphs=None)
def test_an_argument_without_gradients(x):
    y = Scales.apply(x)
    return y is x, y + 1


def test_an_argument_with_a_history():
    """A compiler would take the write for one that autograd doesn't see."""

    def fn(x, y):
        one, other = Adds.apply(x, y * 1)
        return one is x, one * other

    check(fn, tensor(3), leaf(seed=1), backward=True, graphs=None)
    for backend in ("eager", "aot_eager"):
        x, y = tensor(3), leaf(seed=1)
        dl.compile(fn, backend=backend)(x, y)
        assert x.requires_grad and not x.is_leaf


def test_written_and_not_said_so():
    class Silent(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            y.mul_(2)
            return x.mul_(3)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3, None

    def fn(x):
        y, z = x * 1, x * 2
        return Silent.apply(y, z), z

    check(fn, leaf(), backward=True, graphs=None)


def test_saved_before_it_is_written():
    class Squares(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0]

    def fn(x):
        y = x * 1
        return Squares.apply(y).sum()

    check(fn, leaf(), backward=True, graphs=None)
