"""Objects of user classes: attributes, construction, inheritance, containers."""

from __future__ import annotations

import abc

import pytest
import torch

import dynamo_lite
from programs import built, check, tensor


def test_getattr_fallback_and_getattribute():
    class Lazy:
        real = 1

        def __getattr__(self, name):
            if name.startswith("n"):
                return len(name)
            raise AttributeError(name)

    class Watched:
        def __getattribute__(self, name):
            if name == "magic":
                return 42
            return object.__getattribute__(self, name)

        plain = 2

    def fn(x, lazy, watched):
        missing = getattr(lazy, "other", "none"), hasattr(lazy, "zz")
        return x + lazy.real + lazy.nine + watched.magic + watched.plain, missing

    check(fn, tensor(2), Lazy(), Watched(), graphs=(1, 4))


def test_super_and_multiple_inheritance():
    class Base:
        def go(self, x):
            return x + 1

    class Left(Base):
        def go(self, x):
            return super().go(x) * 2

    class Right(Base):
        def go(self, x):
            return super().go(x) - 3

    class Both(Left, Right):
        def go(self, x):
            return super().go(x) / 4

        @classmethod
        def make(cls):
            return cls()

        @property
        def name(self):
            return super().__class__.__name__

    def fn(x):
        both = Both.make()
        return both.go(x), super(Left, both).go(x), both.name, [c.__name__ for c in Both.__mro__]

    check(fn, tensor(2), operators=6)


def test_isinstance_issubclass_and_type():
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self): ...

    class B(A):
        def f(self):
            return 1

    def fn(x, b):
        seen = (
            isinstance(b, A),
            issubclass(B, A),
            isinstance(x, torch.Tensor),
            isinstance(3, (str, int)),
            type(b).__name__,
            type(b) is B,
            isinstance(b, int | A),
            callable(fn),
            b.__class__ is B,
            isinstance(x, torch.nn.Parameter),
        )
        return x + b.f(), seen

    check(fn, tensor(2), B(), operators=1)


def test_slots():
    class Slots:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    def fn(x, given):
        made = Slots(x + 1)
        made.b = given.a * 2
        given.b = x
        return made, hasattr(Slots(1), "b")

    check(fn, tensor(2), Slots(3), operators=1)


def test_container_subclasses():
    class Items(list):
        def last(self):
            return self[-1]

    class Table(dict):
        def __missing__(self, key):
            return len(key)

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return self[name]

    class Size(tuple):
        @property
        def area(self):
            return self[0] * self[1]

    def fn(x, items, table, size):
        items.append(x + 1)
        table["new"] = x * 2
        return items.last() + table["new"] * table["abc"], table.key, size.area, len(items), size[0]

    check(fn, tensor(2), Items([1]), Table(key=7), Size((2, 3)), operators=4)


def test_container_subclass_constructed_inside():
    class Items(list):
        extra = 1

    class Table(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

    def fn(x):
        items = Items([1, 2])
        items.append(x + 1)
        items.extra = 3
        table = Table()
        table["a"] = x * 2
        return items, table, items.extra

    check(fn, tensor(2), graphs=(1, 3))


def test_model_output():
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput

    def fn(x):
        out = BaseModelOutput(last_hidden_state=x + 1, hidden_states=(x, x * 2))
        first = out[0]
        keys = list(out.keys())
        out.attentions = None
        return out, first * out["last_hidden_state"], keys, out.to_tuple()[1], out.attentions, "hidden_states" in out

    check(fn, tensor(2), operators=3)


def test_model_output_argument():
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput

    def fn(out):
        return out.last_hidden_state + out[1][0], len(out), out.attentions is None

    check(fn, BaseModelOutput(last_hidden_state=tensor(2), hidden_states=(tensor(2, seed=1),)), operators=1)


def test_dictionary_whose_items_are_made_when_read():
    from collections import OrderedDict

    class Makes(OrderedDict):
        def __getitem__(self, key):
            cls, scale = super().__getitem__(key)
            return cls(scale)

        def __iter__(self):
            return iter(sorted(super().__iter__()))

    class Scale:
        def __init__(self, scale):
            self.scale = scale

    def build():
        table = Makes(b=(Scale, 3), a=(Scale, 2))
        return lambda x: x * table["a"].scale + table["b"].scale

    check(built(build), tensor(3), operators=2)


def test_break_at_a_method_in_c_that_is_overridden():
    class Notes(list):
        def append(self, item):
            super().append(identity(item))

    def identity(item):
        dynamo_lite.graph_break()
        return item

    class Swaps:
        def __setattr__(self, name, value):
            super().__setattr__(name, value)

    class Other(Swaps):
        n = 5

    Swaps.n = 1

    def fn(x):
        notes, thing = Notes(), Swaps()
        notes.append(x + 1)
        thing.__class__ = Other
        return notes[0] * thing.n, len(notes)

    check(fn, tensor(3), graphs=None)


def test_property_without_a_value_falls_back_on_getattr():
    class Falls:
        @property
        def width(self):
            return self.missing

        def __getattr__(self, name):
            if name == "missing":
                raise AttributeError(name)
            return len(name)

    def fn(x):
        return x * Falls().width

    check(fn, tensor(3), operators=1)
