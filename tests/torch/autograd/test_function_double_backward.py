"""Double backward through users' Functions: gradients are enabled in their backward."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.function import once_differentiable

import dynamo_lite as dl
from programs import Program, Recorder, check, tensor
from shared_programs import Square
from training_checks import trained


def cube(backward, **also):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward), **also}
    return type("Cube", (torch.autograd.Function,), members)


def no_grad_inside(ctx, gradient):
    (x,) = ctx.saved_tensors
    with torch.no_grad():
        known = x * 2
    return gradient * 3 * x**2 * known


def enable_grad_inside(ctx, gradient):
    (x,) = ctx.saved_tensors
    with torch.enable_grad():
        y = x.detach() * 2
    return gradient * 3 * x**2 * (y.detach() * 0 + 1)


def mode_is_asked_for(ctx, gradient):
    (x,) = ctx.saved_tensors
    return gradient * 3 * x**2 + (0 if torch.is_grad_enabled() else 1)


def another_for_each_mode(ctx, gradient):
    (x,) = ctx.saved_tensors
    return gradient * 3 * x**2 if torch.is_grad_enabled() else gradient * x


class Inner(torch.autograd.Function):
    """Its gradient is not that of its forward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 5


def another_function(ctx, gradient):
    (x,) = ctx.saved_tensors
    return Inner.apply(gradient) * Inner.apply(x)


def plain(ctx, gradient):
    (x,) = ctx.saved_tensors
    return gradient * x.detach() * x


BACKWARDS = pytest.mark.parametrize(
    "backward",
    [no_grad_inside, enable_grad_inside, mode_is_asked_for, another_for_each_mode, another_function, plain],
)


@BACKWARDS
def test_twice(backward):
    function = cube(backward)

    def fn(x):
        return function.apply(x * 2) + 1

    recorder, rows = Recorder(), []
    for run in (fn, dl.compile(fn, backend=recorder, fullgraph=True)):
        for weight in (None, tensor(3, seed=1, grad=True)):
            x = tensor(3, grad=True)
            y = run(x)
            (first,) = torch.autograd.grad(y, x, torch.ones(3) if weight is None else weight, create_graph=True)
            if first.requires_grad:
                (first * first).sum().backward()
            rows.append((y.detach(), first.detach(), x.grad, None if weight is None else weight.grad))
    torch.testing.assert_close(rows[2:], rows[:2], rtol=0, atol=0)
    assert len(recorder.graphs) == 1


@BACKWARDS
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_once(backward, backend):
    function = cube(backward)

    check(
        Program(lambda x: function.apply(x * 2) + 1, has_gradients=True, fullgraph=True, backend=backend),
        tensor(3, grad=True),
    )


def test_once_differentiable():
    function = cube(once_differentiable(enable_grad_inside))

    def fn(x):
        return function.apply(x) * 2

    for run in (fn, dl.compile(fn, backend="eager", fullgraph=True)):
        x, weight = tensor(3, grad=True), torch.ones(3, requires_grad=True)
        (first,) = torch.autograd.grad(run(x), x, weight, create_graph=True)
        torch.testing.assert_close(first, x**2 * 6, rtol=0, atol=0)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.sum().backward()


@trained(backend="eager", graphs=None, breaks=None, rtol=0, atol=0)
def test_hooks_that_depend_on_the_mode(wrap):
    def fn(x):
        def hook(gradient):
            with torch.no_grad():
                known = gradient * 2
            return gradient * known

        y = x * x
        y.register_hook(hook)
        return y * 3

    x = tensor(3, grad=True)
    (first,) = torch.autograd.grad(wrap(fn)(x), x, torch.ones(3), create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return first.detach(), second


class SquareGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gradient, x):
        ctx.save_for_backward(gradient, x)
        return gradient * x * 2

    @staticmethod
    def backward(ctx, gradient_of_result):
        gradient, x = ctx.saved_tensors
        return gradient_of_result * x * 2, gradient_of_result * gradient * 2


class SquareByFunctions(Square):
    """Applies another Function in its backward, which is a plain call with the grad mode off."""

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return SquareGradient.apply(gradient, x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_function_in_a_backward_that_is_differentiated_twice_in_one_graph(backend):
    """It needs the backward for the grad mode that is on, too."""

    def fn(x):
        (gradient,) = torch.autograd.grad(SquareByFunctions.apply(x * 1).sin().sum(), x, create_graph=True)
        return gradient

    found = []
    for called in (fn, dl.compile(fn, backend=backend, fullgraph=True)):
        x = tensor(3, grad=True)
        gradient = called(x)
        gradient.sum().backward()
        found.append((gradient, x.grad))
    torch.testing.assert_close(*found)
