"""Backends: by name, as functions, and those that come with the project, forward and backward."""

from __future__ import annotations

import copy
import sys

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.backends import registry
from small_models import ResNetLike


def step(module, x, y):
    """Returns the loss of one training step."""
    return torch.nn.functional.cross_entropy(module(x), y)


def test_names_and_lookup():
    named = {"eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs", "inductor"}
    assert named <= set(dl.list_backends())
    assert dl.list_backends() == sorted(dl.list_backends())

    def mine(gm, example_inputs):
        return gm.forward

    assert dl.lookup_backend(mine) is mine
    with pytest.raises(dl.exc.InvalidBackend, match="no backend 'inducto'; did you mean 'inductor'[?] There"):
        dl.compile(lambda x: x, backend="inducto")


def test_registered_backend_is_found_by_name(monkeypatch):
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))

    @dl.register_backend
    def first(gm, example_inputs):
        return gm.forward

    @dl.register_backend(name="second one")
    def second(gm, example_inputs):
        return gm.forward

    assert dl.lookup_backend("first") is first and dl.lookup_backend("second one") is second
    assert dl.compile(lambda x: x + 1, backend="second one")(torch.ones(1)) == 2
    dl.register_backend(first)
    with pytest.raises(ValueError, match="there is already a backend 'first'"):
        dl.register_backend(second, name="first")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs"])
def test_training_step_has_eagers_gradients(backend):
    torch.manual_seed(0)
    x, y = torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))
    module = ResNetLike()
    same = copy.deepcopy(module)
    expected = torch.autograd.grad(step(module, x, y), list(module.parameters()))
    compiled = dl.compile(same, backend=backend, fullgraph=True)
    found = torch.autograd.grad(step(compiled, x, y), list(same.parameters()))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(dict(same.named_buffers()), dict(module.named_buffers()))


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition", "cudagraphs", "inductor"])
def test_mutation_views_and_constants_come_through(backend):
    def fn(x, values):
        x.mul_(2)
        values.append(x.sum())
        return x[1:], x.t(), 3, values

    inputs = [torch.randn(3, 3) for _ in range(2)]
    for x in inputs:
        mine, theirs = x.clone(), x.clone()
        found, expected = dl.compile(fn, backend=backend)(mine, []), fn(theirs, [])
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(mine, theirs)
        assert found[0].data_ptr() == mine[1:].data_ptr() and found[1].data_ptr() == mine.data_ptr()


class Scale:
    def __init__(self):
        self.factor = 2.0

    def run(self, gradient):
        return gradient * self.factor


def test_backend_of_a_user_that_calls_aotautograd():
    """The backend traces hooks into its backward, and drops unused random numbers."""
    from torch._dynamo.backends.common import aot_autograd

    compilations = []

    def inner(gm, example_inputs):
        compilations.append(gm)
        return gm.forward

    def fn(x, scale):
        y = x * 1
        y.register_hook(scale.run)
        torch.rand(3)
        return y * torch.rand(3)

    def outcome(called):
        torch.manual_seed(0)
        x, scale = torch.ones(3, requires_grad=True), Scale()
        y = called(x, scale)
        scale.factor = 5.0
        y.sum().backward()
        return y.tolist(), x.grad.tolist()

    backend = aot_autograd(fw_compiler=inner)
    compiled = dl.compile(fn, backend=backend)
    assert [outcome(compiled) for _ in range(2)] == [outcome(fn)] * 2
    count = len(compilations)
    dl.compile(lambda x: x * 2, backend=backend)(torch.ones(3, requires_grad=True))
    assert len(compilations) == count + 1  # it is known by now


def test_backend_of_a_user_that_calls_aotautograd_without_a_backward():
    from torch._dynamo.backends.common import aot_autograd

    compilations = []

    def inner(gm, example_inputs):
        compilations.append(gm)
        return gm.forward

    dl.compile(lambda x: x * 2, backend=aot_autograd(fw_compiler=inner))(torch.ones(3))
    assert len(compilations) == 1


def test_backend_that_fails_prepares_once_for_a_frame():
    def rejecting(gm, example_inputs):
        graphs.append(gm)
        if len(graphs) == 1:
            raise NotImplementedError
        return gm.forward

    def fn(x):
        return torch.autograd.grad(x.square().sum(), x)[0]

    graphs, prepared, x = [], [], torch.ones(2, requires_grad=True)
    rejecting.prepare = lambda: prepared.append(len(graphs))
    assert dl.compile(fn, backend=rejecting)(x).tolist() == [2, 2]
    assert prepared.count(0) == 1 and 1 not in prepared


def test_what_handles_a_backends_failure_is_no_handler_of_the_program():
    """The backend fails on a graph that differentiates, so the frame is translated again."""

    def rejecting(gm, example_inputs):
        seen.append(gm)
        if len(seen) == 1:
            raise NotImplementedError
        return gm.forward

    def fn(x):
        y = x.square()
        handled = sys.exc_info()[0]
        return handled, torch.autograd.grad(y.sum(), x)[0]

    seen, x = [], torch.ones(2, requires_grad=True)
    before = dl.counters.graph_breaks
    handled, gradient = dl.compile(fn, backend=rejecting)(x)
    assert handled is None and gradient.tolist() == [2, 2]
    assert dl.counters.graph_breaks == before + 1
