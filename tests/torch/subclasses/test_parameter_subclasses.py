"""Subclasses of ``nn.Parameter``, and of Tensor with ``__torch_function__`` disabled: operators give plain tensors."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, tensor


class Plain(torch.nn.Parameter):
    pass


class Scaled(torch.nn.Parameter):
    def __new__(cls, data, factor):
        created = torch.Tensor._make_subclass(cls, data, True)
        created.factor = factor
        return created

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), Scaled(self.detach().clone(), self.factor))

    @property
    def doubled(self):
        return self * 2

    def scaled(self):
        return self * self.factor


class Dispatching(torch.nn.Parameter):
    def __new__(cls, data, loader):
        return super().__new__(cls, data=data, requires_grad=False)

    def __init__(self, data, loader):
        self._loader = loader

    @property
    def loader(self):
        return self._loader

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Disabled(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

    def __deepcopy__(self, memo):
        return memo.setdefault(id(self), self.detach().clone().as_subclass(Disabled))


def parameters():
    return [
        Plain(tensor(3)),
        Scaled(tensor(3), 5),
        Dispatching(tensor(3), loader="rows"),
        tensor(3).as_subclass(Disabled),
    ]


@pytest.mark.parametrize("at", range(4))
def test_arithmetic_and_metadata(at):
    def fn(w, x):
        kinds = isinstance(w, torch.nn.Parameter), type(w) is Plain, type(w).__name__, type(w * 2).__name__
        y = torch.nn.functional.linear(x.expand(3, 3), w.expand(3, 3), w) + (w * x) + x * w
        return y, kinds, w.shape, w.dtype, w.requires_grad, torch.cat([w, x]), w.detach().sum(), w is w

    check(fn, parameters()[at], tensor(3, seed=1))


def test_own_attributes():
    def fn(w, x):
        return w.doubled + w.scaled() * x, w.factor

    check(fn, Scaled(tensor(3), 5), tensor(3, seed=1), others=[(Scaled(tensor(3), 6), tensor(3))], all_graphs=2)
    check(lambda w, x: (w * x, w.loader), Dispatching(tensor(3), "rows"), tensor(3))


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_layer_is_trained(at, backend):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = parameters()[at]

        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight.expand(3, 3)) + self.weight

    losses = []
    for compiled in (False, True):
        layer = Layer()
        call = dl.compile(layer, backend=backend, fullgraph=True) if compiled else layer
        losses.append([])
        for _ in range(3):
            loss = call(tensor(2, 3)).square().sum()
            losses[-1].append(float(loss))
            if loss.requires_grad:
                loss.backward()
                with torch.no_grad():
                    layer.weight.sub_(layer.weight.grad, alpha=0.01)
                    layer.weight.grad = None
    assert losses[0] == losses[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("at", range(4))
def test_write_with_grad_mode_off(at, backend):
    def fn(w, x):
        with torch.no_grad():
            w.add_(x)
            w.mul_(2)
        return w * x

    found = []
    for call in (fn, dl.compile(fn, backend=backend)):
        w = parameters()[at]
        y = call(w, tensor(3, seed=1))
        if w.requires_grad:
            y.sum().backward()
        found.append((y.detach().tolist(), type(y), y.requires_grad, w.detach().tolist(), w.grad))
    assert str(found[0]) == str(found[1])


def test_attribute_of_alias_breaks():
    check(lambda w, x: (w * x, w.is_leaf, w.grad), Plain(tensor(3)), tensor(3), graphs=None)
