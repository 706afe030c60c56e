"""Named tuples: derived classes, hidden fields, attributes beside items, classes created during tracing."""

from __future__ import annotations

import abc
import collections
import copy

import pytest
import torch

from collector import Programs
from programs import check, checked, recompiling, tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None
LOG: list[int] = []
Pair = collections.namedtuple("Pair", "a b")


class Product(Pair):
    """A named tuple whose instances have a ``__dict__``."""

    def product(self):
        return self.a * self.b


class Hidden(Pair):
    __slots__ = ()

    @property
    def a(self):
        return 7


class Filled(Pair):
    __slots__ = ()

    def __new__(cls, a, b=4):
        return super().__new__(cls, a, b)


@program(graphs=None)
@recompiling
def instance_and_class_escape(x, n):
    Point = collections.namedtuple("Point", "a, b c", defaults=[5, x])
    point = Point(x)
    CUT
    made = Point._make([1, 2, 3])
    return x + 1, point, Point, point.c, Point._field_defaults, point._asdict(), made, repr(made), Point.__match_args__


@program()
def fields_that_a_class_hides(x, n):
    CUT
    return x + Hidden(1, 2).a, Hidden(1, 2)[0], Hidden(1, 2)._asdict()


@program()
def attributes_beside_the_items(x, n):
    made = Product(x, n)
    made.scale = 3
    made.other = x + 1
    CUT
    return made.product() * made.scale, made, vars(made), Product(1, 2) == (1, 2), [*made], len(made), made[1]


@program()
def made_by_its_own_new(x, n):
    CUT
    return x * Filled(1).b, Filled(1), Filled(x, 3)._replace(b=n), copy.copy(Filled(x))


test_program = program.test()


def given(a, b, **attributes):
    made = Product(a, b)
    made.__dict__.update(attributes)
    return made


@checked(
    tensor(3),
    given(tensor(3), 2, seen=1, scale=3),
    others=[(tensor(3), given(tensor(3), 2, seen=1, scale=4))],
    operators=3,
)
def test_attributes_of_an_argument(x, made):
    made.seen = made.seen + 1
    return made.product() * made.seen + made.scale


def test_a_hidden_field_of_an_argument():
    check(lambda x, made: x + made.a, tensor(3), Hidden(1, 2), others=[(tensor(3), Hidden(5, 2))])


class Items(tuple):
    def __new__(cls, *items):
        return super().__new__(cls, items)


class Listed(list):
    pass


@pytest.mark.parametrize("make", [lambda *a: Product(*a), Items, lambda *a: Listed(a)], ids=["named", "tuple", "list"])
def test_operators_take_the_items_of_the_programs_own_sequences(make):
    def fn(x):
        return torch.cat(make(x, x)), x.view(make(1, 3)), torch.zeros(make(2, 2))

    check(fn, tensor(3), operators=3)


# -- object.__new__ ----------------------------------------------------------------------------------------------------


class Abstract(abc.ABC):
    def __new__(cls, *args):
        return super().__new__(cls)

    @abc.abstractmethod
    def area(self): ...


class Mourned:
    def __new__(cls):
        return super().__new__(cls)

    def __del__(self):
        LOG.append(1)


class PassedOn:
    def __new__(cls, *args):
        return object.__new__(cls, *args)


@pytest.mark.parametrize(
    "make", [Abstract, lambda: object.__new__(Abstract), lambda: PassedOn(1)], ids=["abstract", "by_object", "too_many"]
)
def test_object_new_refuses(make):
    def fn(x):
        try:
            make()
        except TypeError as error:
            return x + 1, str(error)

    check(fn, tensor(3))


def test_finalizers_of_instances_created_by_object_new_run():
    """The finalizer has run when the call returns."""

    def fn(x):
        LOG.clear()
        made = Mourned()
        del made
        return x + 1

    check(fn, tensor(3), graphs=None, breaks=1)
    assert LOG == [1]
