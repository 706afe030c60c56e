"""``__subclasses__``: guards check the list, which changes when a class is created or collected."""

from __future__ import annotations

import gc

import torch

import dynamo_lite as dl
from programs import checked, tensor


class Shape:
    sides = 0


class Triangle(Shape):
    sides = 3


class Square(Shape):
    sides = 4


class Said(type):
    def __subclasses__(cls):
        return [Square]


class Asked(metaclass=Said):
    pass


@checked(tensor(2), graphs=None)
def test_subclasses_method_of_classes(x):
    for each in Shape.__subclasses__():
        x = x * each.sides
    same = Shape.__subclasses__() is Shape.__subclasses__()
    return x, Shape.__subclasses__(), same, type.__subclasses__(Triangle), Asked.__subclasses__()


@checked(tensor(2), graphs=1)
def test_plugins_that_are_looked_for(x):
    found, rest = [], Shape.__subclasses__()
    while rest:
        each = rest.pop()
        rest += each.__subclasses__()
        found.append(each)
    by_name = {each.__name__: each for each in type.__subclasses__(Shape)}
    return x * by_name["Square"].sides, len(found), found[0] in Shape.__subclasses__()


def test_more_and_less_of_them():
    def fn(x):
        for each in Shape.__subclasses__():
            x = x * each.sides
        return x

    compiled = dl.compile(fn, backend="eager")
    assert compiled(torch.ones(1)) == 12
    more = type("Pentagon", (Shape,), {"sides": 5})
    assert compiled(torch.ones(1)) == 60
    more.sides = 6
    assert compiled(torch.ones(1)) == 72
    del more
    gc.collect()
    assert compiled(torch.ones(1)) == 12
