"""Classes whose metaclass compares them: comparing the class would run user code."""

from __future__ import annotations

import pytest

from programs import check, recompiling, tensor

ASKED: list[str] = []


class Asked(type):
    def __eq__(cls, other):
        ASKED.append("__eq__")
        return True

    def __hash__(cls):
        ASKED.append("__hash__")
        raise ValueError(cls.__name__)


class Thing(metaclass=Asked):
    size = 3

    def __init__(self, value=2):
        self.value = value

    def scaled(self, x):
        return x * self.value

    def __add__(self, other):
        return 5

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 4

    def __len__(self):
        return 2

    def __getitem__(self, index):
        if index > 1:
            raise IndexError
        return index

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Items(list, metaclass=Asked):
    pass


class Failure(Exception, metaclass=Asked):
    pass


class Descriptor(metaclass=Asked):
    def __get__(self, instance, owner):
        return 7


class Holder:
    described = Descriptor()


def methods(x, thing):
    return thing.scaled(x) + thing.size, type(thing).size, type(thing)(4).value


def which_class(x, thing):
    thing.value = 5
    return x + thing.value, type(thing) is Thing, isinstance(thing, Thing), isinstance(thing, (int, Items))


def special_methods(x, thing):
    with thing as entered:
        return x + (thing + 1), thing == 3, {thing: 1}[thing], len(thing), thing[1], list(thing), entered is thing


def descriptor(x, thing):
    return x + Holder().described, Holder.described


def exception(x, thing):
    try:
        raise Failure(1)
    except Failure as error:
        return x + 1, error.args


def as_key(x, thing):
    try:
        return x, {Thing: 1}
    except ValueError as error:
        return x + 1, error.args


PROGRAMS = (methods, which_class, special_methods, descriptor, exception, as_key)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_metaclass_that_compares(program):
    def fn(x):
        ASKED.clear()
        return program(x, Thing()), list(ASKED)

    check(recompiling(fn), tensor(2), graphs=None, breaks=None)
