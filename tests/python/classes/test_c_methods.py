"""Methods in C called through a class on objects that override them, and what C code calls on numbers."""

from __future__ import annotations

import collections
import math

import pytest
import torch

from outcomes import outcomes
from programs import check, tensor


class Told(Exception):
    def __str__(self):
        return f"<{super().__str__()}>"

    def __repr__(self):
        return f"R{super().__repr__()}"


class ToldKey(KeyError):
    def __str__(self):
        return f"<{super().__str__()}>"


class ToldBoth(ValueError, KeyError):
    def __str__(self):
        return f"<{super().__str__()}>"


class ToldSystem(OSError):
    def __str__(self):
        return f"<{super().__str__()}>"


class Real(float):
    """A float with its own text and comparison."""

    def __str__(self):
        return "real"

    def __eq__(self, other):
        return False

    __hash__ = float.__hash__

    def __float__(self):
        return 9.0


class Whole(int):
    def __int__(self):
        return 77

    def __lt__(self, other):
        return True


class Place(int):
    def __index__(self):
        return 5

    def __str__(self):
        return "place"


class Items(list):
    def __repr__(self):
        return "items"

    def __len__(self):
        return 77


Pair = collections.namedtuple("Pair", "a")


def texts_of_exceptions(x):
    made = Told("a"), Told("a", 2), Told(), ToldKey("a"), ToldBoth("k"), ToldSystem(2, "no")
    try:
        raise Told("a") from ToldKey("b")
    except Told as error:
        caught = str(error), repr(error), str(error.__cause__)
    return x + 1, [str(each) for each in made], repr(made[0]), f"{made[1]}", Told.__str__(made[0]), caught


def numbers_of_derived_classes(x):
    reals = float(Real(1.5)), int(Real(2.5)), math.sqrt(Real(4.0)), math.floor(Real(2.5)), abs(Real(-1)), Real(1) == 1
    wholes = int(Whole(3)), float(Whole(3)), divmod(Whole(7), 2), Whole(3) + 1, sorted([Whole(1), Whole(2)])[0] + 0
    places = int(Place(3)), [0] * Place(2), range(Place(3)), hex(Place(10)), math.gcd(Place(4), 6), chr(Place(65))
    rest = "%d" % Place(3), f"{Real(2):.1f}", "%.1f" % Real(2), int("11", Place(2)), [5, 6, 7, 8][Place(1)]
    return x * Real(2), reals, wholes, places, rest


def methods_of_a_base(x):
    items, table = Items([5]), collections.OrderedDict(a=1)
    lists = list.__repr__(items), list.__len__(items), list.__getitem__(items, 0), len(items)
    tables = dict.__repr__(table), dict.__eq__(table, {"a": 1}), dict.get(table, "a", 3)
    return x + 1, lists, tables, tuple.__repr__(Pair(3)), int.__repr__(True), int.__and__(True, True)


def methods_of_object(x):
    equal = object.__eq__([1], [1]), object.__eq__(3, 3), object.__ne__([1], [1]), object.__hash__("a") == hash("a")
    return x + 1, equal, object.__repr__(3)[:4], object.__str__([1]), type.__repr__(int)


def methods_of_exceptions(x):
    return x + 1, BaseException.__str__(KeyError("a")), BaseException.__repr__(KeyError("a")), str(KeyError("a"))


def refused(x):
    return x + 1, outcomes(
        lambda: object.__format__(3, "d"),
        lambda: setattr(3, "a", 1),
        lambda: setattr(3, "real", 1),
        lambda: delattr(1.5, "q"),
        lambda: setattr(None, "a", 1),
        lambda: setattr(torch.float32, "a", 1),
    )


@pytest.mark.parametrize("fn", [texts_of_exceptions, numbers_of_derived_classes])
def test_calls_of_c_methods_are_traced(fn):
    check(fn, tensor(3), graphs=(1, 3))


@pytest.mark.parametrize("fn", [methods_of_a_base, methods_of_object, methods_of_exceptions, refused])
def test_calls_of_c_methods_have_eagers_results(fn):
    check(fn, tensor(3), graphs=None)
