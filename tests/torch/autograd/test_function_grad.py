"""Users' Functions whose backward runs a part of the forward again, and differentiates it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import Recorder, tensor
from weights import seeded

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


class Step(torch.autograd.Function):
    """A step of a solver that keeps its start alone."""

    @staticmethod
    def forward(ctx, y, *weights):
        ctx.save_for_backward(y, *weights)
        return y + 0.1 * torch.tanh(y @ weights[0])

    @staticmethod
    def backward(ctx, gradient):
        y, *weights = ctx.saved_tensors
        with torch.enable_grad():
            y, *weights = (each.detach().requires_grad_() for each in (y, *weights))
            z = y + 0.1 * torch.tanh(y @ weights[0])
            return torch.autograd.grad(z, (y, *weights), gradient)


class OfModule(torch.autograd.Function):
    """The same with a module: it differentiates by the module's parameters."""

    @staticmethod
    def forward(ctx, model, y, *parameters):
        ctx.model = model
        ctx.save_for_backward(y)
        with torch.no_grad():
            return model(y)

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        with torch.enable_grad():
            y = y.detach().requires_grad_()
            z = ctx.model(y)
            found = torch.autograd.grad(z, (y, *ctx.model.parameters()), gradient, allow_unused=True)
        return None, *found


class OfWhatWasGiven(torch.autograd.Function):
    """Differentiates by its input, which has a history outside."""

    @staticmethod
    def forward(ctx, y):
        ctx.save_for_backward(y)
        return y.sin()

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        with torch.enable_grad():
            (found,) = torch.autograd.grad((y * y).sum(), y)
        return gradient * found


class BehindWhatWasGiven(torch.autograd.Function):
    """Differentiates by a tensor from which its input was computed."""

    source = None

    @staticmethod
    def forward(ctx, y):
        ctx.save_for_backward(y)
        return y.sin()

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        with torch.enable_grad():
            (found,) = torch.autograd.grad((y * y).sum(), BehindWhatWasGiven.source, retain_graph=True)
        return gradient * found


def beside_eager(program, backend, *modules, graphs=1, twice=False):
    rows, recorder = [], Recorder(backend)
    for run in (program, dl.compile(program, backend=recorder)):
        for index in range(3):
            leaves = [each for module in modules for each in module.parameters()]
            x = tensor(4, 3, seed=index, grad=True)
            y = run(x)
            first = torch.autograd.grad(y, [x, *leaves], torch.ones_like(y), create_graph=twice, allow_unused=True)
            row = [y.detach(), *(each if each is None else each.detach() for each in first)]
            if twice and first[0].requires_grad:
                row += torch.autograd.grad(first[0].sum(), [x, *leaves], allow_unused=True)
            rows.append(row)
    torch.testing.assert_close(rows[3:], rows[:3], rtol=0, atol=0)
    assert graphs is None or len(recorder.graphs) == graphs


@BACKENDS
def test_solver(backend):
    layer = seeded(nn.Linear(3, 3, bias=False))

    def fn(x):
        y = x * 2
        for _ in range(3):
            y = Step.apply(y, layer.weight)
        return y * 3

    beside_eager(fn, backend, layer)


@BACKENDS
def test_parameters_of_a_module(backend):
    model = seeded(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3)))
    beside_eager(lambda x: OfModule.apply(model, x * 2, *model.parameters()) * 3, backend, model, graphs=None)


@BACKENDS
@pytest.mark.parametrize("given", [lambda x: x, lambda x: x * 3])
def test_what_was_given(backend, given):
    beside_eager(lambda x: OfWhatWasGiven.apply(given(x)) * 2, backend)


def test_behind_what_was_given():
    def fn(x):
        BehindWhatWasGiven.source = x
        return BehindWhatWasGiven.apply(x * 2)

    beside_eager(fn, "eager", graphs=None)


@pytest.mark.parametrize("function", [Step, OfWhatWasGiven])
def test_differentiated_again(function):
    layer = seeded(nn.Linear(3, 3, bias=False))
    weights = [layer.weight] if function is Step else []
    beside_eager(lambda x: function.apply(x * 2, *weights) * x, "eager", layer, twice=True)
