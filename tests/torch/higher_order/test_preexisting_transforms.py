"""Pre-existing transformed functions of ``torch.func``, called during tracing."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, vmap

from programs import approximate, check, check_refused, tensor, without_breaks
from weights import seeded

WEIGHT = tensor(3, seed=5)


def waves(x):
    return (x * WEIGHT).sin()


def total(x):
    return waves(x).sum()


FOUND = {
    "vmap": (vmap(waves), (4, 3)),
    "its dimensions": (vmap(waves, in_dims=1, out_dims=1), (3, 4)),
    "in chunks": (vmap(waves, chunk_size=2), (4, 3)),
    "grad": (grad(total), (3,)),
    "grad_and_value": (grad_and_value(total), (3,)),
    "jacrev": (jacrev(waves), (3,)),
    "jacfwd": (jacfwd(waves), (3,)),
    "hessian": (hessian(total), (3,)),
    "gradients of a batch": (vmap(grad(total)), (4, 3)),
    "jacobians of a batch": (vmap(jacrev(waves)), (4, 3)),
}


@pytest.mark.parametrize("transformed, shape", FOUND.values(), ids=FOUND)
def test_transform_found_in_a_global(transformed, shape):
    check(approximate(lambda x: (transformed(x), x + 1)), tensor(*shape))


def test_transform_passed_as_an_argument():
    """As an argument the function is guarded by its code and the contents of its cells."""

    x = tensor(3, 3)
    others = [(each, x) for each in (vmap(waves, out_dims=1), vmap(torch.cos), vmap(waves))]
    check(without_breaks(lambda transformed, x: transformed(x) + 1), vmap(waves), x, others=others, all_graphs=3)


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.rows = vmap(self.linear)

    def forward(self, x):
        return self.rows(x) + 1


def test_transform_of_a_module():
    check(approximate(seeded(Rows())), tensor(4, 3))


@pytest.mark.parametrize("result", [None, 1.5, "a", (None,)])
def test_cond_refuses_branches_that_return_other_objects(result):
    def branch(x):
        return x + 1, result

    check_refused(lambda x: torch.cond(x.sum() > 0, branch, branch, (x,)), tensor(3))


def test_a_transform_that_fails_on_fakes_leaves_the_state_of_the_thread():
    weight = torch.ones(3)

    def fn(x):
        return vmap(hessian(lambda row: (row.sin() * weight).sum()))(x)

    before = torch._C._dispatch_tls_local_exclude_set()
    check(fn, tensor(2, 3), graphs=None, breaks=None, operators=None)
    assert torch._C._dispatch_tls_local_exclude_set() == before
    check(lambda x: x.clone().mul_(2).add_(x), tensor(3))


class WithoutContext(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.exp()

    @staticmethod
    def backward(ctx, g):
        return g * 2


class WithContext(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("cls", [WithoutContext, WithContext])
@pytest.mark.parametrize("transform", [vmap, jacfwd, hessian, lambda f: grad(lambda x: f(x.detach()).sum() + x.sum())])
def test_functions_that_torch_refuses_under_transforms(cls, transform):
    check(lambda x: transform(lambda row: cls.apply(row * 1))(x), tensor(3), graphs=None, breaks=None, operators=None)


def test_gradients_inside_of_a_loop_that_has_some():
    def inner(a):
        return grad(lambda b: (b * b).sum())(a)

    def looped(x):
        return torch.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, inner(a) + a), (torch.tensor(0), x))[1]

    check(looped, tensor(3), operators=None)
    check(looped, tensor(3, grad=True), graphs=None, breaks=None, operators=None)
