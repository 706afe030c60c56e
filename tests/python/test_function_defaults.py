"""Defaults of functions: their identity, and writes to them."""

from __future__ import annotations

from collector import Programs
from outcomes import outcome
from programs import tensor

programs = Programs()


def made(n=0):
    def inner(p=(1, 2), q=3, *, k=(4,), m=[5]):  # noqa: B006
        return p

    return inner


@programs(tensor(2))
def constant_defaults_are_one_object(x):
    one, two = made(), made()
    same = one.__defaults__ is two.__defaults__, one.__kwdefaults__ is two.__kwdefaults__
    return x + 1, same, one, two, one.__kwdefaults__["k"] is two.__kwdefaults__["k"]


@programs(tensor(2))
def what_a_default_holds_is_shared_by_calls(x):
    def inner(p=[], *, k={}):  # noqa: B006
        p.append(1)
        k[len(k)] = x
        return p, k

    inner()
    inner()
    return x + 1, inner, inner(), inner.__defaults__[0] is inner()[0]


@programs(tensor(2), graphs=None)
def defaults_are_set(x):
    def inner(a, b=2, *, c=3):
        return a + b + c

    inner.__defaults__ = (5, 6)
    y = inner() * x
    inner.__defaults__ = None
    messages = [outcome(inner, 1)]
    inner.__kwdefaults__ = None
    messages.append(outcome(inner, 1, 2))
    inner.__kwdefaults__ = named = {"c": 10}
    named["c"] = 20
    return y, messages, inner(1, 2), inner, inner.__kwdefaults__ is named


@programs(tensor(2), graphs=None)
def defaults_are_set_to_something_else(x):
    def inner(a, b=2, *, c=3):
        return a + b + c

    wrong = ("__defaults__", [1]), ("__defaults__", 1), ("__kwdefaults__", ()), ("__kwdefaults__", 3)
    return x + 1, [outcome(setattr, inner, *each) for each in wrong], inner


@programs(tensor(2), graphs=None)
def defaults_are_deleted(x):
    def inner(a, b=2, *, c=3):
        return a + b + c

    del inner.__defaults__, inner.__kwdefaults__
    return x + 1, inner.__defaults__, inner.__kwdefaults__, inner


@programs(tensor(2), graphs=None)
def more_defaults_than_parameters(x):
    def inner(a, b):
        return a, b

    inner.__defaults__ = (1, 2, 3)
    return x + 1, inner(), inner(5)


def found(a, b=(1,), *, c=2):
    return a, b, c


@programs(tensor(2))
def keyword_defaults_that_were_found_are_written(x):
    found.__kwdefaults__["c"] = 9
    seen = found(1)
    found.__kwdefaults__["c"] = 2
    return x + 1, seen, found(1), found.__defaults__ is found.__defaults__, found.__defaults__[0] is found(1)[1]


test_function_defaults = programs.test()
