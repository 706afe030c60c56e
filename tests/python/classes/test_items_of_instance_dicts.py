"""Items of an instance's ``__dict__`` that a descriptor of the class shadows, or that have the name of a slot."""

from __future__ import annotations

import copy

import pytest

import dynamo_lite as dl
from programs import checked, tensor, without_breaks


class Shadowed:
    """A property that stores its value in ``__dict__`` under its own name, and counts what runs."""

    calls: list[str]

    def __init__(self, value=3):
        self.__dict__.update(x=value, calls=[])

    @property
    def x(self):
        self.calls.append("get")
        return 7

    @x.setter
    def x(self, value):
        self.calls.append("set")

    @x.deleter
    def x(self):
        self.calls.append("delete")


class ReadOnly:
    def __init__(self):
        self.__dict__["x"] = 3

    @property
    def x(self):
        return 7


class Slotted:
    __slots__ = ("a", "__dict__")

    def __init__(self):
        self.a = 1
        self.b = 2


@pytest.mark.parametrize("kind", [Shadowed, ReadOnly])
def test_shadowed_items_are_deleted_and_written(kind):
    @checked(tensor(3), kind(), kind(), kind())
    @without_breaks
    def run(x, popped, deleted, replaced):
        first = popped.__dict__.pop("x")
        del deleted.__dict__["x"]
        replaced.__dict__.pop("x")
        replaced.__dict__["x"] = x
        return x * first, popped.__dict__, deleted.__dict__, replaced.__dict__, replaced.x, popped.x

    run()


@pytest.mark.parametrize("kind", [Shadowed, ReadOnly])
def test_shadowed_items_of_a_new_object(kind):
    @checked(tensor(3))
    @without_breaks
    def run(x):
        new = kind()
        new.__dict__["x"] = x + 1
        return new.__dict__.pop("x"), new.__dict__, new.x

    run()


def items_and_slots(x, found):
    found.__dict__["a"] = 9
    found.__dict__.update(b=x, a=found.__dict__["a"] + 1)
    before = found.a
    found.a = 4
    return x + 1, before, found.a, found.__dict__["a"], sorted(vars(found)), found.b


def slots_are_no_items(x, found):
    found.a, found.c = 5, x
    names = sorted(found.__dict__)
    del found.a
    return x + 1, names, len(vars(found)), sorted(dict(found.__dict__)), hasattr(found, "a")


@pytest.mark.parametrize("fn", [items_and_slots, slots_are_no_items])
@pytest.mark.parametrize("is_new", [False, True])
def test_slots_and_items_of_one_name(fn, is_new):
    def run(x, found):
        return fn(x, Slotted() if is_new else found)

    expected_object, found_object = Slotted(), Slotted()
    expected = run(tensor(3), expected_object)
    found = dl.compile(run, backend="eager")(tensor(3), found_object)
    assert repr(found) == repr(expected)
    assert repr(vars(found_object)) == repr(vars(expected_object))
    assert getattr(found_object, "a", None) == getattr(expected_object, "a", None)


def every_operation_of_dicts(x, found):
    items = vars(found)
    match items:
        case {"n": n}:
            x = x + n
    items |= {"c": 4}
    items.update([("d", 5)], e=6)
    merged = items | {"z": 1}, {"z": 1} | items
    last, views = items.popitem(), sorted(items.keys() & {"c", "d"})
    try:
        del items["absent"]
    except KeyError as error:
        views.append(str(error))
    return x, merged, last, views, copy.deepcopy(items), list(reversed(items)), items == {"n": 1}, repr(items)


@pytest.mark.parametrize("is_new", [False, True])
def test_instance_dicts_have_the_operations_of_dicts(is_new):
    class Holder:
        def __init__(self):
            self.n = 1

    def run(x, found):
        return every_operation_of_dicts(x, Holder() if is_new else found)

    expected_object, found_object = Holder(), Holder()
    expected = run(tensor(3), expected_object)
    found = dl.compile(run, backend="eager", fullgraph=True)(tensor(3), found_object)
    assert repr(found) == repr(expected)
    assert vars(found_object) == vars(expected_object)


class OwnItems(dict):
    """Its methods must not run while a frame is looked at before it is translated."""

    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self

    def __bool__(self):
        return super().__bool__()

    def values(self):
        raise RuntimeError("values() was called")

    def get(self, key, default=None):
        raise RuntimeError("get() was called")


def test_a_frame_with_an_instance_that_is_its_own_dict():
    def fn(x, own):
        dl.graph_break()
        return helper(own), x

    def helper(own):
        return own.a

    compiled = dl.compile(fn, backend="eager")
    for value in (1, 2):
        assert compiled(3, OwnItems(a=value)) == (value, 3)
    with pytest.raises(AttributeError, match="__bool__"):
        dl.compile(lambda own: bool(own), backend="eager")(OwnItems(a=1))
