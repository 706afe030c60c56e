"""Copies and pickles of objects that hold compiled callables: each calls its own weights."""

from __future__ import annotations

import copy
import functools
import pickle

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import tensor

compiles = functools.partial(dl.compile, backend="eager")


class Holder:
    def __init__(self):
        self.weight = torch.ones(3)
        self.run = self.compiled()

    def compiled(self):
        return compiles(self.step)

    def step(self, x):
        return x * self.weight


class Disabled(Holder):
    def compiled(self):
        return dl.disable(self.step)


class Optimized(Holder):
    def compiled(self):
        return dl.optimize("eager")(self.step)


class Partial(Holder):
    def compiled(self):
        return compiles(functools.partial(torch.mul, self.weight))


class Step:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return x * self.weight


class CallableObject(Holder):
    def compiled(self):
        return compiles(Step(self.weight))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.forward = compiles(self.forward)

    def forward(self, x):
        return x * self.weight

    def run(self, x):
        return self(x)


def pickled(value):
    return pickle.loads(pickle.dumps(value))


HOLDERS = (Holder, Disabled, Optimized, Partial, CallableObject, Layer)


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("how", [copy.deepcopy, pickled], ids=["deepcopy", "pickled"])
@pytest.mark.parametrize("cls", HOLDERS)
def test_a_copy_has_its_own_weights(cls, how, warm):
    original, x = cls(), tensor(2, 3)
    if warm:
        original.run(x)
    copied = how(original)
    with torch.no_grad():
        copied.weight.mul_(5)
    assert torch.equal(copied.run(x), x * 5) and torch.equal(original.run(x), x)


def test_a_copy_is_compiled():
    original, x = Holder(), tensor(2, 3)
    original.again = original.run
    copied = copy.deepcopy(original)
    assert copied.again is copied.run and copied.run.__self__ is copied
    copied.run(x)
    assert dl.counters.graphs == 1


def test_bound_methods_by_themselves():
    holder, x = Holder(), tensor(2, 3)
    assert copy.copy(holder.run).__self__ is holder
    for each in (copy.deepcopy(holder.run), pickled(holder.run)):
        assert each.__self__ is not holder and torch.equal(each(x), x)
    linear = nn.Linear(3, 3)
    forward = copy.deepcopy(compiles(linear).forward)
    assert forward.__self__ is not linear and torch.equal(forward(x), linear(x))


def shifted(x):
    return x + 1


also_shifted = compiles(shifted)
eager_shifted = dl.disable(shifted)
renamed = compiles(lambda x: x * 2)


@dl.optimize("eager")
def doubled(x):
    return x * 2


class Methods:
    weight = 3

    @dl.optimize("eager")
    def scaled(self, x):
        return x * self.weight

    @compiles
    @staticmethod
    def doubled(x):
        return x * 2

    @classmethod
    @dl.optimize("eager", fullgraph=True)
    def of_class(cls, x):
        return x * cls.weight


def test_functions_are_pickled_by_name():
    """``multiprocessing`` passes them to spawned processes in this way."""
    x, methods = tensor(3), Methods()
    for each in (doubled, Methods.scaled, Methods.doubled, methods.doubled):
        assert pickled(each) is each
    for each in (also_shifted, eager_shifted, methods.scaled, methods.of_class, dl.optimize("eager")(methods.scaled)):
        assert torch.equal(pickled(each)(x), each(x))
    assert pickled(also_shifted).__wrapped__ is shifted and pickled(eager_shifted).owner is eager_shifted.owner
    with pytest.raises(pickle.PicklingError, match="<lambda>"):
        pickle.dumps(renamed)


def test_settings_are_copied():
    one, x = dl.optimize("eager", fullgraph=True), tensor(3)
    for each in (copy.copy(one), copy.deepcopy(one), pickled(one)):
        with pytest.raises(dl.exc.Unsupported, match="print"):
            each(lambda x: print(x))(x)
        with each:
            assert torch.equal(shifted(x), x + 1)


def test_functions_are_the_same():
    def fn(x):
        return x + 1

    compiled = compiles(fn)
    assert copy.deepcopy([compiled])[0] is compiled and copy.copy(compiled) is compiled
    assert torch.equal(copy.deepcopy({"sine": compiles(torch.sin)})["sine"](torch.ones(2)), torch.ones(2).sin())
