"""``vars(obj)`` while attributes change: its iterators and views are live, as those of any dict."""

from __future__ import annotations

import pytest

from collector import Programs
from programs import check, tensor

programs = Programs()


class Fields:
    def __init__(self, value):
        self.value = value
        self.count = 1


WAYS = {"iter": iter, "reversed": reversed, "keys": dict.keys, "values": dict.values, "items": dict.items}


@pytest.mark.parametrize("name", WAYS)
def test_an_attribute_is_added_in_a_loop_over_them(name):
    iterate = WAYS[name]

    def fn(x, fields):
        try:
            for _ in iterate(vars(fields)):
                fields.made = x
        except RuntimeError as error:
            return x + 1, str(error)
        return x

    check(fn, tensor(3), Fields(tensor(3)))


@programs(tensor(3), Fields(tensor(3)))
def attributes_replaced_in_a_loop_over_them(x, fields):
    for name, value in vars(fields).items():
        setattr(fields, name, value * 2)
        fields.count += 3
    return x * fields.count + fields.value


@programs(tensor(3), Fields(tensor(3)))
def attribute_removed_in_a_loop_over_them(x, fields):
    names = []
    try:
        for name in fields.__dict__:
            names.append(name)
            del fields.value
    except RuntimeError as error:
        names.append(str(error))
    return x + 1, names


@programs(tensor(3), Fields(tensor(3)))
def views_of_attributes_are_live(x, fields):
    names, values = vars(fields).keys(), iter(vars(fields).values())
    first = next(values)
    fields.count = x + 1
    fields.count = fields.count * 2
    second = next(values)
    fields.made = first
    return list(names), "made" in names, len(names), second, names & {"made", "other"}


@programs(tensor(3))
def attribute_added_to_a_new_function_in_a_loop_over_them(x):
    def inner(): ...

    inner.one = 1
    try:
        for _ in inner.__dict__:
            inner.two = 2
    except RuntimeError as error:
        return x + 1, str(error)
    return x


test_programs = programs.test()
