"""Backwards and hooks with functions of their own: comprehensions, generators and closures over their variables."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, compiled_by, leaf, tensor, with_gradients


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.factors, ctx.shape = (2, 3), x.shape
        ctx.save_for_backward(x)
        return x * 2


def generator(ctx, gradient):
    return tuple(gradient * factor for factor in (2,))


def comprehension(ctx, gradient):
    return tuple([gradient * 2 if needed else None for needed in ctx.needs_input_grad])


def dict_comprehension(ctx, gradient):
    return {factor: gradient * factor for factor in ctx.factors}[3]


def comprehension_in_another(ctx, gradient):
    factors = [2, 3]
    return sum(gradient * factor * other for factor in factors for other in [len(factors), *[each for each in factors]])


def reads_ctx(ctx, gradient):
    return sum(gradient * saved * factor for saved in ctx.saved_tensors for factor in ctx.factors)


def a_lambda(ctx, gradient):
    scale = [3]
    return (lambda other: other * gradient * scale[0])(gradient)


def default(ctx, gradient):
    return (lambda other, scale=gradient, factors=[2]: other * scale * factors[0])(gradient)  # noqa: B006


def inner_function(ctx, gradient):
    (x,) = ctx.saved_tensors
    calls = 0

    def scale(other, *, by=x):
        nonlocal calls
        calls += 1
        return other * gradient * by * calls

    return scale(gradient) + scale(x) * calls


def key_of_sort(ctx, gradient):
    dims = sorted(range(len(ctx.shape)), key=lambda dim: -ctx.shape[dim])
    return gradient * sum(map(lambda dim: ctx.shape[dim], dims))


BACKWARDS = [
    *(generator, comprehension, dict_comprehension, comprehension_in_another, reads_ctx, a_lambda, default),
    *(inner_function, key_of_sort),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("backward", BACKWARDS)
def test_backward_has_functions_of_its_own(backward, backend):
    function = type("Inner", (Doubles,), {"backward": staticmethod(backward)})
    check(compiled_by(backend)(with_gradients(lambda x: function.apply(x * 1))), leaf())


@pytest.mark.parametrize("backward", BACKWARDS)
def test_second_derivative(backward):
    function = type("Inner", (Doubles,), {"backward": staticmethod(backward)})

    def derivatives(fn):
        x = tensor(3, grad=True)
        first = torch.autograd.grad(fn(x).square().sum(), x, create_graph=True)[0]
        return first, torch.autograd.grad(first.square().sum(), x)[0]

    compiled = dl.compile(lambda x: function.apply(x), backend="eager", fullgraph=True)
    for _ in range(3):
        assert all(map(torch.equal, derivatives(compiled), derivatives(function.apply)))


def test_hook_has_functions_of_its_own():
    def fn(x):
        y = x * 2
        y.register_hook(lambda gradient: sum(gradient * factor for factor in (2, 3)))
        return y.sin()

    check(with_gradients(fn), leaf())


def test_variable_of_the_backward_that_an_inner_function_reads_later():
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.scale(), None

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            factor = 2
            found = Inner.apply(gradient, lambda: factor)
            factor = 3
            return found * factor

    def derivatives(fn):
        x = tensor(3, grad=True)
        first = torch.autograd.grad(fn(x).square().sum(), x, create_graph=True)[0]
        return first, torch.autograd.grad(first.square().sum(), x)[0]

    compiled = dl.compile(lambda x: Outer.apply(x), backend="eager")
    for _ in range(3):
        assert all(map(torch.equal, derivatives(compiled), derivatives(Outer.apply)))
