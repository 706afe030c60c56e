"""Containers of modules and parameters, and their mutations inside and between calls."""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

from changing_modules import check_changes
from programs import check, checked, decorator_for, program_of, recompiling, repeated, tensor, with_gradients
from weights import seeded


def linears(count=3):
    return [nn.Linear(3, 3) for _ in range(count)]


class Holder(nn.Module):
    """Calls ``run(self, *args)``."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = [run]
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args):
        return self.run[0](self, *args)


def hold(run, **parts):
    return seeded(Holder(run, **parts))


def check_held(run, parts, x, **settings):
    """``run`` is the forward of a module that has these parts."""
    program = program_of(run)
    check(dataclasses.replace(program, fn=hold(program.fn, **parts)), x, **settings)


held = decorator_for(check_held)


@checked(seeded(nn.Sequential(nn.Linear(3, 3))), nn.Sequential(nn.ReLU()), tensor(2, 3), graphs=None)
def test_sequential_arithmetic(a, b, x):
    return (a + b)(x), len(a * 2)


@held({"layers": nn.ModuleList(linears())}, tensor(2, 3), operators=7)
def test_module_list_by_index_slice_and_zip(self, x):
    for one, other in zip(self.layers[:2], self.layers[1:]):
        x = one(x) + other(x)
    return self.layers[-1](x)


def test_module_list_edited_between_calls():
    def make():
        return hold(lambda self, x: [layer(x) for layer in self.layers], layers=nn.ModuleList(linears(1)))

    def replace(m):
        m.layers[0] = nn.Tanh()

    check_changes(make, lambda m: m.layers.append(seeded(nn.Linear(3, 3), 0.1)), replace, lambda m: m.layers.pop(0))


@held({"layers": nn.ModuleList(linears(1))}, tensor(2, 3), graphs=None)
@repeated(3)
@recompiling
def test_module_list_appended_inside(self, x):
    self.layers.append(nn.ReLU())
    for layer in self.layers:
        x = layer(x)
    return x


@held({"table": nn.ModuleDict({"a": nn.Linear(3, 3), "bb": nn.ReLU()})}, tensor(2, 3), operators=12)
def test_module_dictionary_methods(self, x):
    total = x
    for name, layer in self.table.items():
        total = total + layer(x) * len(name)
    for name in self.table:
        total = total + self.table[name](x)
    for layer in self.table.values():
        total = layer(total)
    return total, "b" in self.table, "z" in self.table, len(self.table), list(self.table.keys())


@held({"table": nn.ModuleDict({"a": nn.Linear(3, 3)})}, tensor(2, 3), operators=1)
def test_module_dictionary_get_missing(self, x):
    try:
        return self.table["missing"](x)
    except KeyError as error:
        return self.table["a"](x), error.args


def test_module_dictionary_edited_between_calls():
    def make():
        return hold(
            lambda self, x: sum(layer(x) for layer in self.table.values()), table=nn.ModuleDict({"a": nn.Tanh()})
        )

    def add(m):
        m.table["b"] = nn.Sigmoid()

    check_changes(make, add, lambda m: m.table.pop("a"), lambda m: m.table.update({"b": nn.ReLU(), "c": nn.Tanh()}))


@held({"weights": nn.ParameterList([torch.ones(3), torch.ones(1)])}, tensor(2, 3), operators=4)
@with_gradients
def test_parameter_list(self, x):
    for weight in self.weights:
        x = x * weight
    return x + self.weights[-1] + len(self.weights), [w.shape for w in self.weights[1:]]


def test_parameter_dictionary():
    def run(self, x):
        for name, weight in self.table.items():
            x = x + weight * len(name)
        return x * self.table["a"], "a" in self.table, list(self.table.keys()), len(self.table)

    m = hold(run, table=nn.ParameterDict({"a": torch.ones(3), "bb": torch.zeros(3)}))
    check(with_gradients(m), tensor(2, 3), operators=5)


def test_modules_as_dictionary_keys():
    def run(self, x):
        scales = {self.a: 2.0, self.b: 3.0}
        for layer, scale in scales.items():
            x = layer(x) * scale
        return x, scales[self.b], self.a in scales, self.known[self.a]

    m = hold(run, a=nn.Linear(3, 3), b=nn.Tanh())
    m.known = {m.a: "a", m.b: "b"}
    check(m, tensor(2, 3), operators=4)


@held({"a": nn.Linear(3, 3), "b": nn.Tanh()}, tensor(2, 3), operators=2)
def test_modules_in_a_set(self, x):
    seen = set()
    for layer in [self.a, self.b, self.a]:
        if layer not in seen:
            seen.add(layer)
            x = layer(x)
    return x, len(seen)


def test_weight_tied_to_an_embedding():
    def run(self, ids):
        return F.linear(self.emb(ids), self.emb.weight), self.head(self.emb(ids))

    m = hold(run, emb=nn.Embedding(5, 3), head=nn.Linear(3, 5, bias=False))
    m.head.weight = m.emb.weight
    check(with_gradients(m), torch.tensor([1, 4, 1]), graphs=1, operators=(3, 4))
