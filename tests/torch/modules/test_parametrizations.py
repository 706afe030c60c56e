"""Parametrizations that are registered inside, and tensors replaced by ``set_``."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import dynamo_lite as dl
from equality import Pairing
from programs import Program, check, checked, compiled_by, tensor, with_gradients


class Symmetric(nn.Module):
    def forward(self, given):
        return given.triu() + given.triu(1).mT


class Doubled(nn.Module):
    def forward(self, given):
        return given * 2

    def right_inverse(self, value):
        return value / 2


def symmetric(module):
    parametrize.register_parametrization(module, "weight", Symmetric())


def doubled(module):
    parametrize.register_parametrization(module, "weight", Doubled())


def both(module):
    doubled(module)
    symmetric(module)


def on_buffer(module):
    parametrize.register_parametrization(module, "scale", Doubled())


@pytest.mark.parametrize(
    "register",
    [symmetric, doubled, both, on_buffer, parametrizations.weight_norm, parametrizations.spectral_norm],
    ids=lambda register: register.__name__,
)
def test_registered_inside(register):
    def fn(module, x):
        register(module)
        return module(x) * module.scale

    results = []
    for run in (fn, dl.compile(fn, backend="eager")):
        for seed in range(3):
            torch.manual_seed(seed)
            module = nn.Linear(3, 3)
            module.register_buffer("scale", torch.ones(3))
            y = run(module, tensor(2, 3))
            module(tensor(2, 3)).sum().backward()
            parameters = [(each, each.grad, each._version) for each in module.parameters()]
            results.append((y, module.weight, type(module).__name__, module.state_dict(), parameters))
    Pairing().compare(results[:3], results[3:], "results")


def test_the_first_call_registers():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.norm = False

        def forward(self, x):
            if not self.norm:
                parametrizations.weight_norm(self.layer)
                self.norm = True
            return self.layer(x).relu()

    torch.manual_seed(0)
    check(Program(Late, is_built=True, calls=3, recompiles=True), tensor(2, 3), graphs=None, breaks=None)


def test_removed_inside():
    def fn(module, x):
        y = module(x)
        parametrize.remove_parametrizations(module, "weight")
        return y + module(x)

    torch.manual_seed(0)
    for _ in range(2):
        module = nn.Linear(3, 3)
        symmetric(module)
        plain = nn.Linear(3, 3)
        plain.load_state_dict({"bias": module.bias, "weight": module.weight})
        x = tensor(2, 3)
        assert torch.equal(dl.compile(fn, backend="eager")(module, x), plain(x) * 2)
        assert type(module) is nn.Linear and torch.equal(module.weight, plain.weight)


@checked(tensor(3), tensor(2, 2), graphs=None)
def test_set_to_a_result(x, y):
    z = y + 1
    x.set_(z)
    z.mul_(2)
    return x + 1, z, x


@checked(tensor(3), graphs=None)
def test_set_to_itself(x):
    x.set_(x)
    return x + 1, x._version


@checked(tensor(3), tensor(2, 2), graphs=None)
def test_set_where_a_view_of_another(x, y):
    view = x[1:]
    view.set_(y * 2)
    view.add_(1)
    return x, view


@checked(tensor(3), tensor(3, seed=1), graphs=None)
def test_set_by_a_storage(x, y):
    x.set_(y.untyped_storage(), 0, (2,), (1,))
    return x + 1


@pytest.mark.parametrize("needs", [(True, False), (False, True)])
def test_set_where_autograd_follows(needs):
    def fn(x, y):
        try:
            x.set_(y)
        except RuntimeError as error:
            return str(error)
        return x * 2

    check(fn, tensor(3, grad=needs[0]), tensor(3, grad=needs[1]), graphs=None)


@checked(tensor(3), tensor(3), graphs=None)
def test_set_to_another_type(x, y):
    try:
        x.set_(y.double())
    except RuntimeError as error:
        return str(error)
    return x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_set_before_it_is_saved(backend):
    def fn(w, x):
        with torch.no_grad():
            w.set_(w)
            x.set_(x * 2)
        return (w * x).sum()

    check(with_gradients(compiled_by(backend)(fn)), tensor(3, grad=True), tensor(3), graphs=None)
