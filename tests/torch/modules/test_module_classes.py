"""Classes of modules: attributes computed, calls overridden, parametrizations, norms of weights, lazy modules."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import dynamo_lite as dl
from changing_modules import check_changes
from programs import Program, check, checked, recompiling, repeated, tensor, with_gradients
from weights import seeded


def test_properties_with_setters():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self._scale = 2.0

        @property
        def scale(self):
            return self._scale

        @scale.setter
        def scale(self, value):
            self._scale = value * 2

        def forward(self, x):
            self.scale = 1.5
            return self.linear(x) * self.scale

    check(recompiling(seeded(Scaled())), tensor(2, 3), operators=2)


def test_property_that_raises_attribute_error():
    class Broken(nn.Module):
        @property
        def missing(self):
            return self.nothing

        def forward(self, x):
            try:
                return x * self.missing
            except AttributeError as error:
                return x + 1, str(error)

    check(Broken(), tensor(3), operators=1)


def test_getattribute_that_counts():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def __getattribute__(self, name):
            if name == "doubled":
                return 2
            return super().__getattribute__(name)

        def forward(self, x):
            return self.linear(x) * self.doubled

    check(seeded(Counting()), tensor(2, 3), graphs=(1, 2), breaks=None, operators=2)


def test_setattr_that_is_overridden():
    class Loud(nn.Module):
        def __setattr__(self, name, value):
            if name == "level":
                value = value * 10
            super().__setattr__(name, value)

        def forward(self, x):
            self.level = 3
            return x * self.level

    check(recompiling(Loud()), tensor(3), operators=1)


def test_call_that_is_overridden():
    class Twice(nn.Linear):
        def __call__(self, x, *, extra=0):
            return super().__call__(x) * 2 + extra

    check(lambda m, x: (m(x), m(x, extra=1)), seeded(Twice(3, 3)), tensor(2, 3), operators=(5, 6))


def test_special_methods_of_a_module():
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([nn.Linear(3, 3), nn.Tanh()])

        def __len__(self):
            return len(self.parts)

        def __getitem__(self, at):
            return self.parts[at]

        def __iter__(self):
            return iter(self.parts)

        def __contains__(self, kind):
            return any(isinstance(part, kind) for part in self.parts)

        def __bool__(self):
            return True

        def __eq__(self, other):
            return isinstance(other, Bag)

        def __hash__(self):
            return 1

        def forward(self, x):
            for part in self:
                x = part(x)
            return x * len(self) + (nn.Tanh in self) + (self == self) + bool(self)

    check(seeded(Bag()), tensor(2, 3), operators=6)


def test_methods_of_all_kinds():
    class Model(nn.Module):
        factor = 3

        @classmethod
        def scale(cls, x):
            return x * cls.factor

        @staticmethod
        def shift(x, by=1):
            return x + by

        @torch.no_grad()
        def peek(self, x):
            return (x * 2).requires_grad

        def forward(self, x):
            return self.scale(self.shift(x)), self.peek(x), self.forward.__name__, type(self).__name__

    check(Model(), tensor(3, grad=True), operators=(2, 3))


def test_forward_with_arguments_of_all_kinds():
    class Model(nn.Module):
        def forward(self, x, /, y=None, *rest, flag=False, **named):
            total = x if y is None else x + y
            for each in rest:
                total = total * each
            return total, flag, sorted(named), [named[key] + 1 for key in sorted(named)]

    check(lambda m, x: (m(x), m(x, x, 2, 3, flag=True), m(x, b=x, a=x * 2)), Model(), tensor(3), operators=6)


def test_module_with_slots_and_class_attributes():
    class Model(nn.Module):
        __slots__ = ("extra",)
        kinds = {"relu": F.relu, "tanh": torch.tanh}

        def __init__(self):
            super().__init__()
            object.__setattr__(self, "extra", 4.0)

        def forward(self, x, kind):
            return self.kinds[kind](x) * self.extra

    made = Model()
    check(lambda x, kind: made(x, kind), tensor(3), "relu", operators=2, others=[(tensor(3), "tanh")])


@checked(seeded(nn.Linear(3, 3)), tensor(2, 3), graphs=None)
def test_printed_and_described(m, x):
    return m(x), repr(m), m.extra_repr(), m._get_name()


# -- parametrizations --------------------------------------------------------------------------------------------------


class Symmetric(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)

    def right_inverse(self, weight):
        return weight.triu()


def symmetric():
    return parametrize.register_parametrization(seeded(nn.Linear(3, 3)), "weight", Symmetric())


def test_parametrizations_one_after_the_other():
    m = symmetric()
    parametrize.register_parametrization(m, "weight", nn.Softplus())
    parametrize.register_parametrization(m, "bias", nn.Tanh())
    check(with_gradients(m), tensor(2, 3), operators=7)


def test_parametrization_cached():
    m = symmetric()

    def fn(m, x):
        with parametrize.cached():
            return m(x) + m(x)

    check(with_gradients(fn), m, tensor(2, 3), graphs=None)


def test_parametrization_removed_between_calls():
    check_changes(symmetric, lambda m: parametrize.remove_parametrizations(m, "weight"))


def test_weight_norm_by_hooks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m = nn.utils.weight_norm(seeded(nn.Linear(3, 4)))
    holder = nn.Sequential(nn.Tanh(), m)
    check(with_gradients(recompiling(lambda x: holder(x))), tensor(2, 3), graphs=(1, 2), breaks=None)


@pytest.mark.parametrize("train", [True, False])
def test_spectral_norm(train):
    m = parametrizations.spectral_norm(seeded(nn.Linear(3, 4))).train(train)
    check(repeated(3)(with_gradients(m)), tensor(2, 3))


@pytest.mark.parametrize("train", [True, False])
def test_spectral_norm_by_hooks(train):
    def build():
        m = nn.utils.spectral_norm(seeded(nn.Conv2d(1, 2, 2))).train(train)
        m.weight_u.fill_(0.5)
        m.weight_v.fill_(0.5)
        return lambda x: m(x)

    image = tensor(1, 1, 3, 3)
    check(
        Program(build, is_built=True, calls=3, has_gradients=True, recompiles=True), image, graphs=(1, 3), breaks=None
    )


# -- made by torch.fx --------------------------------------------------------------------------------------------------


def test_module_made_by_fx_inside_of_another():
    m = torch.fx.symbolic_trace(seeded(nn.Sequential(nn.Linear(3, 3), nn.ReLU())))
    check(nn.Sequential(m, nn.Tanh(), m), tensor(2, 3), operators=5)


class Adds(nn.Module):
    def forward(self, x):
        return torch.add(x, 3)


def test_module_made_by_fx_whose_graph_is_changed():
    def subtract(m):
        next(node for node in m.graph.nodes if node.op == "call_function").target = torch.sub
        m.recompile()

    def hook(m):
        m.register_forward_hook(lambda module, args, out: out * 2)

    check_changes(lambda: torch.fx.symbolic_trace(Adds()), subtract, lambda m: None, hook)


class Fingerprinted(nn.Module):
    """Its hash is of what it has counted, which ``__init__`` sets late; it is equal to nothing."""

    def __init__(self):
        super().__init__()
        dl.graph_break()
        self.scale = torch.ones(3) * 2
        self.counted = [1]

    def __hash__(self):
        return hash((id(self), *self.counted))

    def __eq__(self, other):
        raise TypeError("fingerprints are not compared")

    def forward(self, x):
        self.counted.append(x.shape[0])
        return x * self.scale


def test_a_module_whose_hash_is_its_own():
    """What is kept of a module while it is built and changed asks neither its hash nor its equality."""

    def program(x):
        module = Fingerprinted()
        return module(x), module(x + 1), module.counted

    check(program, tensor(2, 3), graphs=2, breaks=2, others=[(tensor(4, 3),)])

    module = Fingerprinted()
    compiled = dl.compile(module, backend="eager")
    for rows in (1, 2, 3):
        compiled(tensor(rows, 3))
    assert module.counted == [1, 1, 2, 3]


class RefusesAttributes(torch.nn.Linear):
    """Its hooks know the attributes that the class has, and see no others."""

    seen = []

    def __setattr__(self, name, value):
        self.seen.append(name)
        if name.startswith("_") and name not in vars(self) and hasattr(self, "weight"):
            raise TypeError(name)
        super().__setattr__(name, value)

    def __delattr__(self, name):
        raise TypeError(name)


class NamesItself(torch.nn.Linear):
    names = []

    def __init_subclass__(cls, *, label):
        cls.names.append(label)


class Named(NamesItself, label="first"):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)


class ReadsAll(torch.nn.Linear):
    read = []

    def __getattribute__(self, name):
        if name.startswith("_dl") or name == "__dict__":
            ReadsAll.read.append(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("cls", [RefusesAttributes, Named, ReadsAll])
def test_module_is_compiled_without_the_hooks_of_its_class(cls):
    module, x = cls(3, 3), torch.ones(3)
    RefusesAttributes.seen.clear()
    ReadsAll.read.clear()
    compiled = dl.compile(module, backend="eager")
    assert RefusesAttributes.seen == ReadsAll.read == [] and NamesItself.names == ["first"]
    assert torch.equal(compiled(x), module(x))
    assert isinstance(compiled, cls) and vars(compiled) is vars(module)
    compiled.extra = 3
    assert module.extra == 3
    if cls is RefusesAttributes:
        assert cls.seen == ["extra"]
        with pytest.raises(TypeError, match="_private"):
            compiled._private = 1
