"""Backwards through a part of the outputs: a compiler's graph has one autograd node for all, and frees all."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dynamo_lite as dl
from programs import Program, approximate, check, checked, compiled_by, tensor
from weights import seeded

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def network(inputs, outputs, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


def holds(program, modules, backend, calls=2):
    """Whether the modules' parameters and gradients and the results are those of eager."""
    found = []
    for compile in (lambda fn: fn, lambda fn: dl.compile(fn, backend=backend)):
        mine = copy.deepcopy(modules)
        fn = compile(program(*mine))
        results = [fn(tensor(2, 4, seed=seed)) for seed in range(calls)]
        kept = [each for module in mine for each in module.parameters()]
        found.append([*results, *kept, *(each.grad for each in kept)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@BACKENDS
def test_in_a_callee(backend):
    def program(first, second):
        def step(loss):
            loss.backward()

        def fn(x):
            one = first(x).pow(2).sum()
            other = second(x).pow(2).sum()
            step(one)
            step(other)
            return other.detach()

        return fn

    holds(program, [network(4, 2), network(4, 2, seed=1)], backend)


@BACKENDS
def test_adversaries(backend):
    def program(generator, judge):
        of_generator = torch.optim.SGD(generator.parameters(), 0.1)
        of_judge = torch.optim.SGD(judge.parameters(), 0.1)

        def fn(x):
            fake = generator(x[:, :3])
            loss = F.softplus(-judge(x)).mean() + F.softplus(judge(fake.detach())).mean()
            of_judge.zero_grad()
            loss.backward()
            of_judge.step()
            other = F.softplus(-judge(fake)).mean()
            of_generator.zero_grad()
            other.backward()
            of_generator.step()
            return loss.detach(), other.detach()

        return fn

    holds(program, [network(3, 4), network(4, 1, seed=1)], backend)


@BACKENDS
def test_an_equilibrium(backend):
    """The hook on the result goes back through another one."""

    def fn(module, x):
        with torch.no_grad():
            z = torch.zeros_like(x)
            for _ in range(5):
                z = torch.tanh(module(z) + x)
        z = torch.tanh(module(z) + x)
        start = z.clone().detach().requires_grad_()
        again = torch.tanh(module(start) + x)

        def solve(gradient):
            found = gradient
            for _ in range(5):
                found = torch.autograd.grad(again, start, found, retain_graph=True)[0] + gradient
            return found

        z.register_hook(solve)
        return z

    module = seeded(nn.Linear(4, 4), 0.1)
    check(Program(fn, has_gradients=True, backend=backend, is_exact=False), module, tensor(2, 4), graphs=None)


@checked(tensor(2, 4), tensor(4, 3, grad=True), graphs=2)
@compiled_by("aot_eager")
@approximate
def test_what_hangs_together_is_one_graph(x, weight):
    y = (x @ weight).sin()
    loss = y.pow(2).sum()
    loss.backward(retain_graph=True)
    return y + 1


@checked(tensor(2, 4), *(tensor(4, 3, grad=True), tensor(4, 3, grad=True)), breaks=1)
@compiled_by("aot_eager")
@approximate
def test_what_has_no_backward_is_one_graph(x, one, other):
    y, z = x @ one, x @ other
    print("a break")
    return y, z
