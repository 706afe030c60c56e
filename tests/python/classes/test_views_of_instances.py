"""Views and iterators of instances of classes derived from builtin ones: they outlive the call that created them."""

from __future__ import annotations

from collections import OrderedDict, deque

import pytest
import torch

import dynamo_lite as dl
from collector import Programs
from programs import tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


class Mapping(dict):
    pass


class Ordered(OrderedDict):
    pass


class Row(list):
    pass


class Queue(deque):
    pass


class Bag(set):
    pass


@program(graphs=0)
def views_follow_their_instance(x, n):
    made, ordered = Mapping(a=1), Ordered(a=1)
    views = made.keys(), made.values(), made.items(), ordered.keys(), ordered.items()
    CUT
    made["b"] = ordered["c"] = x
    return [[*each] for each in views]


@program(graphs=0)
def iterators_follow_their_instance(x, n):
    row = Row([1, 2])
    iterator = iter(row)
    next(iterator)
    CUT
    row.append(x)
    return [*iterator], row


@pytest.mark.parametrize("make", [Mapping, Ordered])
@pytest.mark.parametrize("view", ["keys", "values", "items"])
def test_a_view_that_is_returned_is_of_the_instance(make, view):
    def fn(x):
        made = make(a=1)
        made.note = x * 2
        return getattr(made, view)(), made

    found, made = dl.compile(fn, backend="eager")(torch.ones(1))
    made["b"] = 3
    assert [*found] == [*getattr(made, view)()]


@pytest.mark.parametrize("make", [Row, Queue, Bag])
def test_an_iterator_that_is_returned_is_of_the_instance(make):
    def fn(x):
        made = make([1, 2, 3])
        iterator = iter(made)
        next(iterator)
        return iterator, made, x + 1

    def rest(iterator, made, _):
        made.clear()
        try:
            return [*iterator]
        except RuntimeError as error:
            return str(error)

    x = torch.ones(1)
    assert rest(*dl.compile(fn, backend="eager")(x)) == rest(*fn(x))


def test_a_view_keeps_the_attributes_of_its_instance():
    def fn(x):
        made = Mapping(a=1)
        made.note = x * 2
        return made.keys()

    found = dl.compile(fn, backend="eager")(torch.ones(1))
    assert [*found] == ["a"]


test_program = program.test()
