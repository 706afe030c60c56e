"""Modules that change between calls and inside: moved, retyped, copied, saved and loaded."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo_lite as dl
from changing_modules import check_changes
from programs import Recorder, built, check, checked, recompiling, repeated, tensor, with_gradients
from weights import seeded


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)
        self.scale = 2.0
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x):
        return self.second(self.drop(F.relu(self.first(x)))) * self.scale + self.shift


def net():
    return seeded(Net())


def replace_weight(m):
    m.first.weight = nn.Parameter(torch.ones(4, 3))


def widen(m):
    m.first, m.second = seeded(nn.Linear(3, 6)), seeded(nn.Linear(6, 3))


CHANGES = {
    "train_and_eval": [lambda m: m.eval(), lambda m: m.train(), lambda m: m.drop.eval(), lambda m: m.eval()],
    "attribute": [lambda m, scale=scale: setattr(m, "scale", scale) for scale in (3.0, 5, 2.0)],
    "parameter": [replace_weight, lambda m: setattr(m.first, "bias", None), lambda m: m.first.weight.data.fill_(0.5)],
    "parameter_of_another_shape": [widen],
    "frozen_and_thawed": [
        lambda m: m.requires_grad_(False),
        lambda m: m.first.requires_grad_(True),
        lambda m: m.requires_grad_(),
    ],
    "buffer": [
        lambda m: setattr(m, "shift", torch.zeros(3)),
        lambda m: m.register_buffer("shift", torch.full((3,), 2.0)),
        lambda m: setattr(m, "shift", torch.zeros(1)),
        lambda m: m.shift.add_(1),
    ],
    "child": [lambda m: setattr(m, "drop", nn.Identity()), lambda m: m.add_module("drop", nn.Tanh())],
    "forward_of_the_instance": [
        lambda m: setattr(m.first, "forward", lambda x: F.pad(x, (0, 1))),
        lambda m: delattr(m.first, "forward"),
    ],
    "state_loaded": [lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}, assign=True)],
}


@pytest.mark.parametrize("steps", CHANGES.values(), ids=CHANGES)
def test_changed_between_calls(steps):
    check_changes(net, *steps)


def test_retyped():
    def build():
        m = net().eval()

        def call(x):
            return m(x)

        def program(x, dtype):
            m.to(dtype)
            return call(x.to(dtype))

        return program

    x = tensor(2, 3)
    others = [(x, torch.float64), (x, torch.bfloat16), (x, torch.float32)]
    check(built(build), x, torch.float32, graphs=None, others=others)


@checked(tensor(2, 3), "cpu", graphs=None, others=[(tensor(2, 3), "meta")])
@built
def test_moved_to_meta():
    m = net().eval()

    def call(x):
        return m(x)

    def program(x, device):
        nonlocal m
        if device == "meta":
            m = copy.deepcopy(m).to("meta")
        return call(x.to(device)).shape

    return program


def test_class_swapped():
    class Other(Net):
        def forward(self, x):
            return super().forward(x) * 100

    check_changes(lambda: net().eval(), lambda m: setattr(m, "__class__", Other))


def test_attribute_that_appears():
    class Maybe(nn.Module):
        def forward(self, x):
            return x * self.factor if hasattr(self, "factor") else x + 1

    check_changes(Maybe, lambda m: setattr(m, "factor", 3), lambda m: delattr(m, "factor"))
    check_changes(
        Maybe,
        lambda m: setattr(m, "factor", nn.Parameter(torch.ones(3))),
        lambda m: delattr(m, "factor"),
        lambda m: m.register_buffer("factor", torch.ones(3) * 2),
    )


# -- written inside ----------------------------------------------------------------------------------------------------


def test_attributes_set_in_forward():
    class Notes(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.shape = None
            self.last = None

        def forward(self, x):
            self.shape = tuple(x.shape)
            self.last = self.linear(x)
            self.inner = {"sum": self.last.sum()}
            return self.last * 2

    def fn(m, x):
        y = m(x)
        return y, m.shape, m.last, m.inner["sum"]

    check(recompiling(fn), seeded(Notes()), tensor(2, 3), operators=3)


def test_counter_in_forward():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=False)
            self.count = 0

        def forward(self, x):
            self.calls += 1
            self.count += 1
            return x * self.calls + self.count

    check(repeated(4)(recompiling(Counts())), tensor(3), graphs=1, operators=3)


def test_buffer_assigned_in_forward():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("nothing", None)

        def forward(self, x):
            if self.nothing is None and self.training:
                self.mean = self.mean.lerp(x.mean(0), 0.1)
            return x - self.mean

    check(repeated(3)(recompiling(Average())), tensor(2, 3), graphs=1, operators=3)


def test_registered_as_none():
    class Without(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_parameter("bias", None)
            self.register_buffer("mean", None)
            self.register_module("act", None)

        def forward(self, x):
            y = x if self.bias is None else x + self.bias
            y = y if self.mean is None else y - self.mean
            return y * 2 if self.act is None else self.act(y)

    check(Without(), tensor(2, 3), operators=1)
    check_changes(
        Without,
        lambda m: setattr(m, "bias", nn.Parameter(torch.ones(3))),
        lambda m: setattr(m, "mean", torch.ones(3)),
        lambda m: setattr(m, "act", nn.Tanh()),
        lambda m: setattr(m, "bias", None),
    )


@checked(net(), tensor(2, 3), graphs=1)
def test_mode_switched_inside(m, x):
    was = m.training
    m.eval()
    y = m(x)
    m.train(was)
    return y, m.training, m.drop.training


@checked(net().eval(), tensor(2, 3), graphs=None)
@with_gradients
@recompiling
def test_gradients_zeroed_inside(m, x):
    m.zero_grad()
    return m(x), [p.grad for p in m.parameters()]


@checked(net().eval(), tensor(2, 3))
def test_state_dictionary_inside(m, x):
    state = m.state_dict()
    return m(x), sorted(state), state["first.weight"] * 2, state._metadata


@checked(net().eval(), net().eval(), tensor(2, 3))
def test_state_loaded_inside(m, other, x):
    missing, unexpected = m.load_state_dict(other.state_dict(), strict=False)
    return m(x), missing, unexpected, other.state_dict()["first.bias"] is other.first.bias


# -- what dl.compile returns -------------------------------------------------------------------------------------------


def test_shallow_copy_of_a_compiled_module():
    m = net().eval()
    compiled = copy.copy(dl.compile(m, backend="eager"))
    assert compiled.first is m.first
    torch.testing.assert_close(compiled(tensor(2, 3)), m(tensor(2, 3)))


def _load(data):
    return torch.load(io.BytesIO(data), weights_only=False)


def _save(value):
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


@pytest.mark.parametrize("through", [lambda m: pickle.loads(pickle.dumps(m)), lambda m: _load(_save(m))])
def test_pickling_a_compiled_module(through):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    compiled = dl.compile(m, backend="eager")
    x = tensor(2, 3)
    torch.testing.assert_close(through(compiled)(x), m(x))


def test_forward_compiled_in_place():
    m = net().eval()
    expected = m(tensor(2, 3))
    recorder = Recorder()
    m.forward = dl.compile(m.forward, backend=recorder)
    torch.testing.assert_close(m(tensor(2, 3)), expected)
    assert len(recorder.graphs) == 1


@pytest.mark.parametrize("where", ["dtype", "device", "tensor"])
def test_moved_to_where_it_is(where):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

        def forward(self, x):
            to = {"dtype": x.dtype, "device": x.device, "tensor": x}[where]
            same = self.inner.to(to)
            return same(x), same is self.inner, self.inner.float() is same

    check(with_gradients(recompiling(Net())), tensor(4, 3), operators=3)


@checked(nn.Linear(3, 3), tensor(2, 3))
@with_gradients
def test_data_that_it_has(layer, x):
    layer.weight.data = layer.weight
    return layer(x)
