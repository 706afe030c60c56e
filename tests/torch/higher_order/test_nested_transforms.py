"""Nested torch.func transforms, and users' Functions inside functions that operators run."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

from programs import approximate, check, check_refused, tensor

WEIGHT = tensor(3, 3, seed=7)


def waves(x):
    return (x @ WEIGHT).sin()


def pulled(x):
    value, pull = vjp(waves, x)
    return value + pull(torch.ones_like(value))[0]


def with_aux(row):
    value, pull, aux = vjp(lambda a: (a.sin(), a * 2), row, has_aux=True)
    return value, pull(value)[0], aux


INSIDE = {
    "vmap": lambda x: vmap(pulled)(x),
    "vmap of has_aux": lambda x: vmap(with_aux)(x),
    "vmap of cotangents inside": lambda x: vmap(lambda row: vmap(vjp(waves, row)[1])(torch.eye(3))[0])(x),
    "grad": lambda x: grad(lambda a: pulled(a).sum())(x),
    "vjp": lambda x: vjp(pulled, x)[1](x)[0],
    "jvp": lambda x: jvp(pulled, (x,), (x * 2,)),
    "jacrev": lambda x: jacrev(pulled)(x),
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("fn", INSIDE.values(), ids=list(INSIDE))
def test_vjp_inside_another_transform(fn, gradients):
    check(approximate(fn), tensor(3, 3, grad=gradients), operators=None)


@pytest.mark.parametrize("gradients", [False, True])
def test_pulling_back_inside_of_another_transform(gradients):
    def fn(x):
        value, pull = vjp(waves, x)
        scale = x[0] * 2
        rows = vmap(lambda c: pull(c)[0] + scale)(torch.stack([value, value * 2]))
        twice = vmap(vmap(lambda c: pull(c)[0]))(torch.stack([torch.stack([value, value * 2])] * 2))
        return rows, twice, grad(lambda c: pull(c)[0].sum())(value), pull(value)

    check(approximate(fn), tensor(3, 3, grad=gradients), operators=None)


@pytest.mark.parametrize("around", ["cond", "map"])
def test_pulling_back_in_what_takes_tensors_alone(around):
    def fn(x):
        value, pull = vjp(waves, x)
        if around == "cond":
            return torch.cond(x.sum() > 0, lambda c: pull(c)[0] * 1, lambda c: c * 2, (value,))
        return torch._higher_order_ops.map(lambda c: pull(c)[0] * 1, torch.stack([value, value * 2]))

    check_refused(fn, tensor(3, 3))


class Scaled(torch.autograd.Function):
    """A Function with a rule for ``vmap``, which no test here uses."""

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None

    @staticmethod
    def vmap(info, in_dims, x, factor):
        return x * factor * 1, in_dims[0]


class Generated(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].cos() * 2


def both(x):
    return Generated.apply(Scaled.apply(x, 3)) * 1


AROUND = {
    "checkpoint": lambda x: checkpoint(both, x, use_reentrant=False),
    "cond": lambda x: torch.cond(x.sum() > 0, both, lambda a: a * 2, (x,)),
    "while_loop": lambda x: torch.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, both(a)), (torch.tensor(0), x)),
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("fn", AROUND.values(), ids=list(AROUND))
def test_functions_with_vmap_rules_inside_operators(fn, gradients):
    def run(x):
        results = fn(x)
        first = results[-1] if isinstance(results, tuple) else results
        return results, torch.autograd.grad(first.sum(), x) if first.requires_grad else None

    check(approximate(fn), tensor(3, 3, grad=gradients), operators=None)
    check(approximate(run), tensor(3, 3, grad=gradients), graphs=None, breaks=None, operators=None)
