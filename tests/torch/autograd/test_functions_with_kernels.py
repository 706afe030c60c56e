"""``torch.autograd.Function`` whose forward and backward launch Triton kernels."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl

pytest.importorskip("triton", reason="Triton isn't installed")
layers = pytest.importorskip("fused_layers")
on_device = pytest.importorskip("users_kernels", exc_type=ImportError).on_device


def normed(x, w):
    return (layers.RMSNorm.apply(x * 2, w, 1e-6) * torch.arange(8.0, device=x.device)).sum()


def gated(x, w):
    """The backward writes into what the forward was given."""
    return (layers.SwiGLU.apply(x * w, x + 1) * w).sum()


def rotated(x, w):
    """The forward writes into its argument, and the backward into the gradient."""
    q = (x * w).view(2, 3, 2, 4).transpose(1, 2)
    cos, sin = torch.arange(2.0, device=x.device).cos(), torch.arange(2.0, device=x.device).sin()
    return (layers.Rotary.apply(q, cos, sin).sin() * torch.arange(4.0, device=x.device)).sum()


def all_of_them(x, w):
    h = layers.RMSNorm.apply(x, w, 1e-6)
    return gated(h, w) + rotated(h, w) + normed(h, w)


def argument_that_is_read_after(x, w):
    q = (x * w).view(2, 3, 2, 4).transpose(1, 2)
    turned = layers.Rotary.apply(q, *torch.full((2, 2), 0.5, device=x.device))
    return (turned * q).sum()


def checkpointed(x, w):
    return checkpoint(lambda x: gated(x, w) + normed(x, w), x * 2, use_reentrant=False)


def inputs():
    return on_device(2, 3, 8, grad=True), on_device(8, seed=1, grad=True)


def same_after_the_backward(fn, backend):
    """The result, what the program keeps of the values inside, its arguments and their gradients are eager's."""
    results = []
    for run in (fn, dl.compile(fn, backend=backend)):
        given = inputs()
        out, *kept = run(*given)
        out.backward()
        results.append([each.detach().clone() for each in (out, *kept, *given)] + [each.grad for each in given])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("fn", [all_of_them, argument_that_is_read_after, checkpointed])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(fn, backend):
    given = inputs()
    wanted = fn(*given)
    gradients = torch.autograd.grad(wanted, given)
    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        found = compiled(*given)
        torch.testing.assert_close((found, torch.autograd.grad(found, given)), (wanted, gradients))
    assert dl.counters.graphs == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_value_that_the_backward_overwrites_and_the_program_keeps(backend):
    """In eager it has a gradient in it after the backward."""

    def fn(x, w):
        a = x * w
        return layers.SwiGLU.apply(a, x + 1).sum(), a

    same_after_the_backward(fn, backend)


def test_value_that_a_checkpointed_backward_overwrites_and_the_program_keeps():
    def region(x, w):
        a = x * w
        return layers.SwiGLU.apply(a, x + 1), a

    def fn(x, w):
        out, a = checkpoint(region, x * 2, w, use_reentrant=False)
        return out.sum(), a

    same_after_the_backward(fn, "aot_eager")


def test_parameter_that_the_backward_would_overwrite():
    """As eager does: it is no value of the graph's own."""

    def fn(x, w):
        return (layers.SwiGLU.apply(x, w.expand(2, 3, 8)).sum(),)

    same_after_the_backward(fn, "aot_eager")


def test_without_gradients():
    given = [each.detach() for each in inputs()]
    compiled = dl.compile(all_of_them, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*given), all_of_them(*given))
