"""``weakref.proxy``: attributes and calls are the referent's; anything else breaks the graph."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from collector import Programs
from programs import built, check, tensor, with_gradients

programs = Programs()


class Scale:
    def __init__(self, by):
        self.by = by

    def apply(self, x):
        return x * self.by


class Items:
    def __init__(self, *items):
        self.items = [*items]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return self.items[at]

    def __iter__(self):
        return iter(self.items)

    def __call__(self, x):
        return x + sum(self.items)

    def __str__(self):
        return f"{len(self)} items"

    def __eq__(self, other):
        return isinstance(other, Items) and other.items == self.items

    def __add__(self, other):
        return len(self) + other


scale, items = Scale(4), Items(1, 2, 3)
scale_proxy, items_proxy = weakref.proxy(scale), weakref.proxy(items)


@programs(tensor(2), operators=2, graphs=None)
def attributes_of_one_that_was_found(x):
    found = hasattr(scale_proxy, "absent"), getattr(scale_proxy, "absent", 3)
    return x * scale_proxy.by, scale_proxy.apply(x), found


@programs(tensor(2), graphs=None)
def classes_of_one_that_was_found(x):
    kinds = type(scale_proxy), type(items_proxy), scale_proxy.__class__
    said = isinstance(scale_proxy, Scale), isinstance(scale_proxy, int), isinstance(items_proxy, (int, Items))
    return x + 1, kinds, said, callable(scale_proxy), callable(items_proxy)


@programs(tensor(2), graphs=None)
def items_of_one_that_was_found(x):
    texts = str(items_proxy), f"{items_proxy}"
    return items_proxy(x), len(items_proxy), items_proxy[1], [*items_proxy], 3 in items_proxy, bool(items_proxy), texts


@programs(tensor(2), graphs=None, breaks=None)
def written_to(x):
    scale_proxy.seen = x + 1
    y = scale.seen * 2
    del scale_proxy.seen
    return y, hasattr(scale, "seen")


@programs(tensor(2), cut=False, graphs=None)
def made_inside(x):
    made = Scale(3)
    proxy = weakref.proxy(made)
    return proxy.apply(x), proxy.by, made, proxy is weakref.proxy(made), proxy


@programs(tensor(2), graphs=None, breaks=None)
def dead(x):
    made = Scale(3)
    proxy = weakref.proxy(made)
    del made
    try:
        return proxy.apply(x)
    except ReferenceError:
        return x + 5


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.child = Child(self)

    def forward(self, x):
        return self.child(x)


class Child(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.parent = weakref.proxy(parent)

    def forward(self, x):
        return self.parent.lin(x) * 2 + self.parent.lin.weight.sum()


parent = Parent()


@programs(tensor(3), graphs=None)
@with_gradients
def a_modules_parent(x):
    return parent(x)


test_programs = programs.test()


def test_proxy_whose_referent_is_deallocated_between_calls():
    def fn(x, proxy):
        return x * proxy.by

    compiled = dl.compile(fn, backend="eager")
    made = Scale(2)
    proxy = weakref.proxy(made)
    assert compiled(torch.ones(1), proxy) == 2
    made.by = 7
    assert compiled(torch.ones(1), proxy) == 7
    del made
    with pytest.raises(ReferenceError):
        compiled(torch.ones(1), proxy)


def test_one_reference_of_an_object():
    """An object has one reference without a callback, wherever it is created first."""

    def build():
        one, other = Scale(2), Scale(3)
        references = weakref.ref(one), weakref.ref(other), weakref.ref(one, print)

        def fn(x, which):
            thing = (one, other)[which]
            made = weakref.ref(thing)
            same = [each is made for each in references]
            equal = [each == made for each in references], [each != made for each in references]
            return x + 1, same, equal, references[0] is references[which]

        return fn

    check(built(build), tensor(2), 0, others=[(tensor(2), 1), (tensor(2), 0)], graphs=None, breaks=None)
    check(built(build), tensor(2), 1, others=[(tensor(2), 0), (tensor(2), 1)], graphs=None, breaks=None)
