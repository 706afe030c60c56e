"""Class patterns of ``match``: which attributes they read of class and subject, how often, and what they refuse."""

from __future__ import annotations

import pytest

from collector import Programs
from outcomes import outcome
from programs import check, tensor

programs = Programs()
ASKED: list[str] = []


class Named(int):
    __match_args__ = ("real",)


class Pair:
    __match_args__ = ("a", "b")

    def __init__(self, a, b=2):
        self.a, self.b = a, b


class Listed:
    __match_args__ = ["a"]  # noqa: RUF012 -- no tuple, which is the point


class Numbered:
    __match_args__ = (1,)


class Asked:
    @property
    def v(self):
        ASKED.append("v")
        return 3

    @property
    def absent(self):
        raise AttributeError("absent")

    @property
    def wrong(self):
        raise ValueError("wrong")


@programs(tensor(3))
def a_class_derived_from_int_with_names(x):
    match Named(3):
        case Named(value):
            return x + value


@programs(tensor(3))
def properties_are_asked_once(x):
    ASKED.clear()
    match Asked():
        case Asked(absent=1):
            return x
        case Asked(v=4):
            return x - 1
        case Asked(v=3):
            return x + len(ASKED)


@programs(tensor(3))
def other_patterns(x):
    match {"a": 1, "b": [1, 2, x]}:
        case {"a": int(i), "b": [_, *rest], **others}:
            return rest[1] + i, others


REFUSED: list = []


@REFUSED.append
def what_a_property_raises(x):
    match Asked():
        case Asked(wrong=3):
            return x


@REFUSED.append
def names_that_are_no_tuple(x):
    match Listed():
        case Listed(a):
            return x + a


@REFUSED.append
def a_name_that_is_no_text(x):
    match Numbered():
        case Numbered(a):
            return x + a


@REFUSED.append
def too_many(x):
    match Pair(x):
        case Pair(a, b, c):
            return a + b + c


@REFUSED.append
def no_names(x):
    match Asked():
        case Asked(a):
            return x + a


@REFUSED.append
def one_attribute_twice(x):
    match Pair(x):
        case Pair(_, a=2):
            return x


@REFUSED.append
def no_class(x):
    kinds = (int, float)
    match 3:
        case kinds():
            return x


test_program = programs.test()


@pytest.mark.parametrize("fn", REFUSED)
def test_refused(fn):
    check(lambda x: (x + 1, outcome(fn, x)), tensor(3), graphs=None)
