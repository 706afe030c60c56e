"""Calls: every kind of argument, of callee and of binding."""

from __future__ import annotations

from programs import check, checked, tensor, with_keywords


def test_missing_argument_is_the_users_type_error():
    def inner(a, b):
        return a + b

    def fn(x):
        y = x + 1
        return inner(y)

    check(fn, tensor(2), graphs=None)


@checked(tensor(2), 1, graphs=1, operators=6)
@with_keywords(d=6)
@checked(tensor(2), 1, 2, 4, 5, graphs=1, operators=6)
@with_keywords(d=6, z=7)
def test_compiled_function_with_all_kinds_of_parameters(a, /, b, c=3, *args, d, e=5, **kwargs):
    return a + b + c + sum(args) + d + e + sum(kwargs.values()), args, kwargs


@checked(tensor(2), tensor(2), tensor(2), graphs=0)
@checked(tensor(2), graphs=0)
def test_wrong_call_of_compiled_function_raises_as_in_eager(a, b):
    return a + b


class Asked:
    """An iterable with a length. It records the calls of its methods."""

    def __init__(self, *items):
        self.items = items
        self.log = []

    def __iter__(self):
        self.log.append("iter")
        return iter(self.items)

    def __len__(self):
        self.log.append("len")
        return len(self.items)


def test_arguments_of_an_object_that_says_how_many_there_may_be():
    def add(*values):
        return sum(values)

    def fn(x):
        values = Asked(x, 1, x)
        return add(*values), add(1, *values), [*values], values.log

    check(fn, tensor(2))
