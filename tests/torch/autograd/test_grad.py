"""``torch.autograd.grad`` inside, an operator of the graph."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo_lite as dl
from programs import Program, approximate, built, check, checked, recompiling, tensor, with_gradients, without_breaks
from weights import seeded


def critic():
    return seeded(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))


def penalty(m, real, fake):
    eps = torch.rand(real.shape[0], 1)
    mixed = (eps * real + (1 - eps) * fake).detach().requires_grad_(True)
    (grad,) = torch.autograd.grad(m(mixed).sum(), mixed, create_graph=True)
    return m(fake).mean() - m(real).mean() + 10 * (grad.norm(dim=1) - 1).square().mean()


def adapted(m, x):
    fast = list(m.parameters())
    for _ in range(2):
        loss = F.linear(torch.tanh(F.linear(x, *fast[:2])), *fast[2:]).square().mean()
        grads = torch.autograd.grad(loss, fast, create_graph=True)
        fast = [p - 0.1 * g for p, g in zip(fast, grads)]
    return F.linear(torch.tanh(F.linear(x, *fast[:2])), *fast[2:]).square().mean()


def laplacian(m, x):
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(m(x).sum(), x, create_graph=True)
    total = 0
    for i in range(3):
        (second,) = torch.autograd.grad(first[:, i].sum(), x, create_graph=True)
        total = total + second[:, i]
    return total.square().mean()


def product_with_the_hessian(m, v):
    w = m[0].weight
    (g,) = torch.autograd.grad(m(v).square().sum(), w, create_graph=True)
    (hv,) = torch.autograd.grad(g, w, grad_outputs=torch.ones_like(w), retain_graph=True)
    return hv.sum() + g.sum()


def of_first_order(m, x):
    total = 0
    for row in x:
        fast = list(m.parameters())
        loss = m(row).square().sum()
        grads = torch.autograd.grad(loss, fast)
        fast = [p - 0.1 * g for p, g in zip(fast, grads)]
        total = total + F.linear(torch.tanh(F.linear(x, *fast[:2])), *fast[2:]).square().mean() + loss.detach()
    return total


PROGRAMS = {
    "first order": of_first_order,
    "gradient_penalty": lambda m, x: penalty(m, x, x * 2 + 1),
    "maml": adapted,
    "laplacian": laplacian,
    "hessian": product_with_the_hessian,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS.values(), ids=list(PROGRAMS))
def test_what_is_trained_by_gradients_of_gradients(fn, backend):
    check(
        Program(fn, has_gradients=True, fullgraph=True, backend=backend, is_exact=backend == "eager"),
        critic(),
        tensor(2, 3),
    )


def test_what_does_not_come_of_freed_buffers_leaves():
    def fn(m, x):
        delta = torch.zeros_like(x)
        for _ in range(3):
            delta = delta.detach().requires_grad_()
            (grad,) = torch.autograd.grad(m(x + delta).sum(), delta)
            delta = (delta + 0.1 * grad.sign()).clamp(-0.3, 0.3)
        return m(x + delta.detach())

    check(with_gradients(without_breaks(fn)), critic(), tensor(2, 3))

    def of_inputs(m, x):
        for _ in range(2):
            x = x.detach().requires_grad_()
            x = x - 0.1 * torch.autograd.grad(m(x).sum(), [x])[0] + torch.randn_like(x)
        return x

    check(with_gradients(without_breaks(of_inputs)), critic(), tensor(2, 3))
    check(with_gradients(of_inputs), critic().requires_grad_(False), tensor(2, 3), graphs=2, breaks=1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_where_no_gradients_are_kept(backend):
    def fn(m, x):
        with torch.enable_grad():
            given = x.clone().requires_grad_()
            (slope,) = torch.autograd.grad(m(given).sum(), given)
        return x - slope

    m = critic().requires_grad_(False)
    with torch.no_grad():
        check(
            Program(fn, fullgraph=True, backend=backend, is_exact=False),
            m,
            tensor(4, 3),
            others=[(m, tensor(4, 3, seed=1))],
        )


@checked(tensor(3, grad=True))
@built
def test_a_history_from_outside_that_is_not_on_the_way():
    other = (tensor(3) * 1).requires_grad_() * 2
    return lambda x: torch.autograd.grad((x * x).sum(), x)[0] * other.detach() + other


def test_what_is_not_used():
    def fn(w, v, x):
        found = torch.autograd.grad((w * x).sum(), [w, v], allow_unused=True, create_graph=True)
        zeros = torch.autograd.grad((w * x).sum(), (w, v), materialize_grads=True)
        return found, zeros

    check(without_breaks(fn), tensor(3, grad=True), tensor(3, grad=True), tensor(3))

    def refused(w, v, x):
        try:
            return torch.autograd.grad((w * x).sum(), [w, v])
        except RuntimeError as error:
            return str(error)[:30], x + 1

    check(refused, tensor(3, grad=True), tensor(3, grad=True), tensor(3), graphs=None)


def test_what_comes_after_buffers_were_freed():
    def fn(w, x):
        loss = (w * w * x).sum()
        (grad,) = torch.autograd.grad(loss, w)
        return loss, grad

    for program in (fn, dl.compile(fn, backend="aot_eager")):
        loss, _ = program(tensor(3, grad=True), tensor(3))
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()

    def again(w, x):
        loss = (w * w * x).sum()
        first = torch.autograd.grad(loss, w)
        try:
            return torch.autograd.grad(loss, w)
        except RuntimeError as error:
            return str(error)[:30], first

    check(again, tensor(3, grad=True), tensor(3), graphs=None)


def test_a_history_from_outside():
    def fn(y, w):
        return torch.autograd.grad((y * 2).sum(), w)

    def program():
        w = tensor(3).requires_grad_()
        return lambda x: fn(w * x, w)

    check(built(program), tensor(3), graphs=None)

    def square(x):
        return torch.autograd.grad((x * x).sum(), x)

    def either():
        return lambda x, later: square(x * 2 if later else x)

    check(built(either), tensor(3, grad=True), False, others=[(tensor(3, grad=True), True)], graphs=None)


def test_hooks_run():
    def program(late):
        def build():
            w = tensor(3).requires_grad_()
            seen = []
            if not late:
                w.register_hook(lambda grad: seen.append(1) or grad * 2)

            def fn(x):
                if late:
                    w.register_hook(lambda grad: seen.append(1) or grad * 2)
                return torch.autograd.grad((w * x).sum(), w), len(seen)

            return fn

        return build

    for late in (False, True):
        check(built(recompiling(program(late))), tensor(3), graphs=None)


def test_without_gradients():
    def fn(w, x):
        with torch.enable_grad():
            y = (w * x).sum()
            found = torch.autograd.grad(y, w)
        return found, y.requires_grad

    def outside(w, x):
        with torch.no_grad():
            return fn(w, x)

    check(outside, tensor(3, grad=True), tensor(3), graphs=None)
    with torch.no_grad():
        check(fn, tensor(3, grad=True), tensor(3))


@checked(tensor(3), graphs=(1, 2), breaks=None)
def test_what_warns_of_other_inputs(x):
    y = x.requires_grad_() * 2
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        (slope,) = torch.autograd.grad(y.sum(), x, only_inputs=False)
    return slope, len(heard)


@checked(tensor(3, grad=True), tensor(3))
def test_batches_of_gradients(w, x):
    y = w * x
    return torch.autograd.grad(y, w, torch.eye(3), is_grads_batched=True)


def test_sizes_that_differ():
    def fn(m, x):
        return laplacian(m, x) + penalty(m, x, x + 1)

    others = [(critic(), tensor(size, 3)) for size in (3, 4, 5)]
    check(with_gradients(approximate(fn)), critic(), tensor(2, 3), others=others, all_graphs=(1, 3))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_backend_that_fails_on_a_second_derivative(fullgraph):
    """AOTAutograd can't trace that of a vector's product through ``abs``: the call is CPython's."""
    w, b, tangent = tensor(1, 4, grad=True), tensor(1, grad=True), torch.tensor(1.0, requires_grad=True)

    def fn(x):
        return torch.autograd.grad(F.linear(x, w, b).abs().sum(), x, tangent, create_graph=True)[0]

    compiled = dl.compile(fn, backend="aot_eager", fullgraph=fullgraph)
    x = tensor(4, grad=True)
    if fullgraph:
        with pytest.raises(dl.exc.BackendCompilerFailed):
            compiled(x)
    else:
        assert torch.equal(compiled(x), fn(x)) and torch.equal(compiled(x), fn(x))
