"""``torch.compile`` and ``dl.compile`` called in a compiled function: their results are traced as the original
function.
"""

from __future__ import annotations

import functools

import pytest
import torch

import dynamo_lite as dl
from collector import Programs
from programs import check, repeated, tensor

table = Programs()


def shifted(x, by=1):
    return x.sin() + by


class Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by

    def method(self, x):
        return x + self.by


LAYER = torch.nn.Linear(3, 3)


@pytest.mark.parametrize("backend", ["eager", "inductor", lambda graph, inputs: graph.forward])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled_where_it_is_called(backend, fullgraph):
    def fn(x):
        return torch.compile(shifted, backend=backend, fullgraph=fullgraph, dynamic=False)(x, by=2) * 3

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    assert torch.equal(compiled(tensor(3)), shifted(tensor(3), 2) * 3)


@table(tensor(3), cut=False)
@table(tensor(3))
@repeated(1)
def one_result_called_repeatedly(x):
    step = torch.compile(shifted, backend="eager")
    for by in range(3):
        x = step(x, by)
    return x


@table(tensor(3))
def callables_of_all_kinds(x):
    scaled = Scaled(3)
    y = torch.compile(scaled, backend="eager")(x) + torch.compile(scaled.method, backend="eager")(x)
    y = y + torch.compile(torch.sin, backend="eager")(x)
    z = torch.compile(functools.partial(shifted, by=4), backend="eager")(x)
    return y, z, torch.compile(lambda each: each + y, backend="eager")(x)


@table(tensor(3), cut=False)
@table(tensor(3))
@repeated(1)
def decorated_inside(x):
    y = x + 1

    @torch.compile(backend="eager", fullgraph=True)
    def inner(z, *, by=2):
        return z * by + y

    @dl.compile(backend="eager")
    def other(z):
        return inner(z, by=3) + y

    return other(x) * 2


@table(tensor(3))
def compiled_by_us(x):
    return dl.compile(shifted, backend="eager")(x) + dl.compile(fn=shifted, backend="eager", mode=None)(x, by=3)


@table(tensor(2, 3))
def modules(x):
    y = torch.compile(LAYER, backend="eager")(x) + dl.compile(LAYER, backend="eager")(x)
    return y + torch.compile(dl.compile(LAYER, backend="eager"), backend="eager")(x)


@table(tensor(3))
def disabled(x):
    same = torch.compile(shifted, disable=True), dl.compile(shifted, backend="eager", disable=True)
    return x + 1, [each is shifted for each in same]


@table(tensor(3), cut=False)
@table(tensor(3))
@repeated(1)
def alive_across_statements(x):
    first = torch.compile(shifted, backend="eager")
    both = {"first": first, "again": first, "decorator": torch.compile(backend="eager")}
    y = first(x)
    again = both["decorator"](both["again"])
    return again(y), both["first"] is both["again"], both["first"] is shifted


@table(tensor(2, 3), cut=False)
@table(tensor(2, 3))
@repeated(1)
def module_alive_across_statements(x):
    layer = torch.compile(LAYER, backend="eager")
    ours = dl.compile(LAYER, backend="eager")
    y = layer(x)
    return y, ours(y)


@table(tensor(3), graphs=None)
def wrong_arguments(x):
    caught = []
    for compile, given, settings in (
        (torch.compile, shifted, {"backend": "eager", "mode": "default", "options": {}}),
        (torch.compile, shifted, {"backend": "no such backend"}),
        (torch.compile, shifted, {"no_such_setting": 3}),
        (torch.compile, 3, {"backend": "eager"}),
        (dl.compile, Scaled, {"backend": "eager"}),
        (dl.compile, shifted, {"backend": "no such backend"}),
        (dl.compile, shifted, {"backend": 3}),
        (dl.compile, shifted, {"fullgraph": 3}),
        (dl.compile, shifted, {"mode": "no such mode"}),
    ):
        try:
            compile(given, **settings)
        except Exception as error:
            caught.append(type(error).__name__)
    return x + 1, caught


test_programs = table.test()


def test_result_that_the_program_keeps():
    """Generated code calls `compile`, so the result is compiled by the requested backend."""
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def fn(x):
        double = x * 2
        step = dl.compile(lambda y: y + double, backend=count)
        return step, step(x)

    step, y = dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))
    assert not graphs
    assert torch.equal(step(tensor(3)), y)
    assert len(graphs) == 1


def test_module_compiled_in_place_inside():
    def fn(layer, x):
        layer.compile(backend="eager")
        return layer(x)

    layer = torch.nn.Linear(3, 3)
    expected = layer(tensor(3))
    assert torch.equal(dl.compile(fn, backend="eager", fullgraph=True)(layer, tensor(3)), expected)
    assert layer._compiled_call_impl is not None
    assert torch.equal(layer(tensor(3)), expected)


def test_attributes_of_result_break():
    def fn(x):
        step = torch.compile(shifted, backend="eager")
        return step(x), step.__name__, isinstance(torch.compile(LAYER, backend="eager"), torch.nn.Module)

    check(fn, tensor(3), graphs=None)
