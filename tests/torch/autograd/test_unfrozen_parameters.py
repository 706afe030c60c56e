"""Pre-existing leaves that require no gradients until the program says so: layers unfrozen, adapters switched."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import Recorder, checked, tensor
from weights import seeded

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def net():
    return seeded(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))).requires_grad_(False)


def beside_eager(program, make, backend="eager", graphs=1, calls=3):
    """Each call on what ``make`` makes, with the backward of what is returned."""
    rows, recorder = [], Recorder(backend)
    for run in (program, dl.compile(program, backend=recorder)):
        for index in range(calls):
            given = make()
            found = run(*given, index)
            results = [each for each in found if isinstance(each, torch.Tensor)]
            hung = [each for each in results if each.grad_fn is not None]
            if hung:
                sum(each.sum() for each in hung).backward()
            leaves = [leaf for each in given for leaf in (each.parameters() if isinstance(each, nn.Module) else [each])]
            rows.append(
                [(each.detach(), each.requires_grad) for each in results]
                + [each for each in found if not isinstance(each, torch.Tensor)]
                + [(each.detach().clone(), each.requires_grad, each.is_leaf, each.grad) for each in leaves]
            )
    torch.testing.assert_close(rows[calls:], rows[:calls], rtol=0, atol=0)
    if graphs is not None:
        assert len(recorder.graphs) == graphs


def model_and_data():
    return net(), tensor(5, 3)


@BACKENDS
@pytest.mark.parametrize("spelled", ["attribute", "method", "module"])
def test_before_it_is_used(backend, spelled):
    def fn(model, x, index):
        if spelled == "module":
            model.requires_grad_(True)
        for each in model.parameters():
            if spelled == "attribute":
                each.requires_grad = True
            else:
                each.requires_grad_()
        return [model(x)]

    beside_eager(fn, model_and_data, backend)


@BACKENDS
def test_after_it_was_used(backend):
    def fn(model, x, index):
        before = model(x)
        model[2].requires_grad_(True)
        return before, before + model(x)

    beside_eager(fn, model_and_data, backend)


@BACKENDS
def test_for_a_while(backend):
    def fn(model, x, index):
        model.requires_grad_(True)
        y = model(x)
        model.requires_grad_(False)
        z = model(x)
        model[0].requires_grad_(True)
        return y, z, model(x)

    beside_eager(fn, model_and_data, backend)


@BACKENDS
def test_differentiated_inside(backend):
    def fn(x, index):
        y = x.sin()
        x.requires_grad_(True)
        (gradient,) = torch.autograd.grad((x * y).sum(), x)
        x.requires_grad_(False)
        return gradient, x.requires_grad

    beside_eager(fn, lambda: [tensor(3)], backend)


class Adapted(nn.Module):
    """A frozen layer with two small ones beside it, of which one is in use."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(3, 3).requires_grad_(False)
        self.down = nn.ModuleDict({name: nn.Linear(3, 2, bias=False) for name in ("one", "other")})
        self.up = nn.ModuleDict({name: nn.Linear(2, 3, bias=False) for name in ("one", "other")})
        self.active = ""

    def use(self, name):
        for layers in (self.down, self.up):
            for each, layer in layers.items():
                layer.requires_grad_(each == name)
        self.active = name

    def forward(self, x):
        return self.base(x) + self.up[self.active](self.down[self.active](x))


def test_adapters_are_switched():
    model = seeded(Adapted())

    def make():
        model.zero_grad()
        return model, tensor(5, 3)

    def fn(model, x, index):
        model.use(("one", "other")[index % 2])
        return [model(x)]

    beside_eager(fn, make, graphs=None, calls=4)


def test_with_a_gradient_and_a_hook():
    def fn(x, index):
        x.requires_grad_(True)
        x.grad = torch.ones_like(x)
        x.register_hook(lambda gradient: gradient * 2)
        return [(x * 3).sum()]

    beside_eager(fn, lambda: [tensor(3)])


def test_views_come_to_require_gradients_too():
    def before(x, index):
        part = x[0]
        x.requires_grad_(True)
        return part, part.requires_grad, x * 2

    def found(x, part, index):
        y = part * 2
        x.requires_grad_(True)
        return y, part.requires_grad, x * 2, part * 3

    def found_after(x, part, index):
        x.requires_grad_(True)
        return part * 2, x * 2

    def with_view():
        x = tensor(2, 3)
        return x, x.view(6)

    beside_eager(before, lambda: [tensor(2, 3)], graphs=None)
    beside_eager(found, with_view, graphs=None)
    beside_eager(found_after, with_view, graphs=None)


def test_views_come_later():
    def fn(x, y):
        x.requires_grad_(True)
        return x * 2, y * 3

    compiled = dl.compile(fn, backend="eager")
    for given in (lambda x: tensor(6), lambda x: x.view(6), lambda x: x.detach().view(6)):
        results = []
        for run in (fn, compiled):
            x = tensor(2, 3)
            results.append([(each.detach(), each.requires_grad) for each in run(x, given(x))])
        torch.testing.assert_close(*results, rtol=0, atol=0)


@checked(tensor(2, 3), graphs=None)
def test_written_through_a_view(x):
    part = x[0]
    x.requires_grad_(True)
    part.add_(1)
    return x * 2


@pytest.mark.parametrize("first", [True, False])
def test_the_graph_raises(first):
    def fn(x, at):
        if first:
            x.requires_grad_(True)
        y = (x * 2)[at]
        x.requires_grad_(True)
        return y * x

    for run in (fn, dl.compile(fn, backend="eager")):
        for at in (1, 2, 5):
            x = tensor(3)
            try:
                run(x, torch.tensor(at)).sum().backward()
            except IndexError:
                assert at == 5 and x.requires_grad is first and x.grad is None
            else:
                assert x.grad is not None


def test_other_data_as_well():
    def before(x, index):
        x.data = x.data * 2
        x.requires_grad_(True)
        return [x * 2]

    def after(x, index):
        x.requires_grad_(True)
        x.data = x.data * 2
        return [x * 2]

    beside_eager(before, lambda: [tensor(3)], graphs=None)
    beside_eager(after, lambda: [tensor(3)], graphs=None)
