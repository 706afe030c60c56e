"""Modules: parameters, containers, hooks, training mode, state."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from programs import check, checked, recompiling, repeated, tensor
from weights import seeded


class Mlp(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.second = nn.Linear(width, 2, bias=False)
        self.scale = 2.0
        self.register_buffer("shift", torch.ones(2))

    def forward(self, x, double=False):
        y = self.second(F.relu(self.first(x))) * self.scale + self.shift
        return y * 2 if double else y


@checked(seeded(Mlp()), seeded(Mlp(5)), tensor(2, 3), operators=11)
def test_two_modules_of_one_class(a, b, x):
    return a(x) - b(x)


@checked(seeded(nn.Sequential(nn.ReLU(), nn.Linear(3, 3), nn.Tanh())), tensor(2, 3), operators=4)
def test_sequential_is_indexed_and_sliced(m, x):
    return m[0](x), m[1:](m[-2](x)), len(m), [type(c).__name__ for c in m]


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for i, layer in enumerate(self.layers[1:3]):
            x = layer(x) + i
        return x + len(self.layers) + (self.layers[0] in self.layers)


def test_module_list():
    check(seeded(Stack()), tensor(2, 3), operators=10)


def test_attribute_written_each_call():
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = None
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            y = self.linear(x)
            if self.last is not None:
                y = y + self.last
            self.last = y.detach()
            return y

    check(repeated(4)(recompiling(seeded(Remembers()))), tensor(2, 3), graphs=1, operators=2)


@checked(seeded(Mlp()), tensor(2, 3), operators=12)
def test_calls_that_go_round_call(m, x):
    return m.forward(x), m.first.forward(x), nn.Module.__call__(m.first, x), m.__call__(x)


@checked(seeded(Mlp()), tensor(2), graphs=(1, 4), operators=(6, 10))
def test_walks_over_modules_and_parameters(m, x):
    total = x
    for p in m.parameters():
        total = total + p.sum()
    names = [n for n, _ in m.named_parameters()]
    kinds = [type(c).__name__ for c in m.modules()]
    shapes = {k: v.shape for k, v in m.state_dict().items()}
    return total, names, kinds, shapes, [n for n, _ in m.named_children()], sum(p.numel() for p in m.buffers())


def test_user_overrides_of_call_and_getattr():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def __call__(self, x):
            return super().__call__(x) * 2

        def forward(self, x):
            return self.inner(x) + self.in_features

    check(seeded(Wrapper()), tensor(3), graphs=(1, 4), operators=3)


def test_module_with_state_in_containers():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {}
            self.count = 0

        def forward(self, x, key):
            self.count += 1
            if key not in self.cache:
                self.cache[key] = x * 2
            return self.cache[key] + 1, self.count

    check(repeated(3)(recompiling(Cache())), tensor(3), "k", operators=2)


@checked(seeded(nn.Linear(3, 3)), tensor(3), operators=2)
@repeated(3)
def test_weight_changed_in_place_between_calls(m, x):
    y = m(x)
    with torch.no_grad():
        m.weight.mul_(2)
    return y


def test_modules_made_inside_after_torch_compile_has_run():
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    check(seeded(Stack()), tensor(2, 3), operators=10)
