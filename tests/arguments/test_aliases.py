"""Arguments that are one object in one call and two in the next, where one of them is mutated."""

from __future__ import annotations

import collections
import types

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, recompiling, repeated, tensor, watching


class Thing:
    kind = 1

    def __init__(self, value=1):
        self.value = value
        self.items = []


def counter(value):
    def get():
        return value

    def put(new):
        nonlocal value
        value = new

    return get, put


def _append(x, one, other):
    one.append(1)
    return x + len(other)


def _set_key(x, one, other):
    one["k"] = 1
    return x + len(other)


def _delete_key(x, one, other):
    del one["k"]
    return x + ("k" in other)


def _add(x, one, other):
    one.add(7)
    return x + len(other)


def _set_item(x, one, other):
    one[0] = 7
    return x + other[0]


def _set_attribute(x, one, other):
    one.value = 5
    return x + other.value


def _hide_class_attribute(x, one, other):
    one.kind += 1
    return x + other.kind


def _append_to_attribute(x, one, other):
    one.items.append(3)
    return x + len(other.items)


def _set_cell(x, one, other):
    one[1](9)
    return x + other[0]()


def _take(x, one, other):
    next(one)
    return x + next(other)


def _read_before(x, one, other):
    before = len(other)
    one.append(2)
    return x + before + len(other)


MAKERS = {
    _append: list,
    _set_key: dict,
    _delete_key: lambda: {"k": 1},
    _add: set,
    _set_item: lambda: [1, 2],
    _set_attribute: Thing,
    _hide_class_attribute: Thing,
    _append_to_attribute: Thing,
    _set_cell: lambda: counter(1),
    _take: lambda: iter([1, 2, 3]),
    _read_before: lambda: collections.deque([1]),
}


@pytest.mark.parametrize("fn", MAKERS)
@pytest.mark.parametrize("same_first", [False, True])
def test_two_arguments_that_may_be_one(fn, same_first):
    make = MAKERS[fn]

    def same():
        made = make()
        return tensor(2), made, made

    def apart():
        return tensor(2), make(), make()

    order = [same, apart, same] if same_first else [apart, same, apart]
    first, *others = [each() for each in order]
    check(repeated(1)(fn), *first, others=others, all_graphs=2)


# -- an object and the dict of its attributes ------------------------------------------------------------------------


def _through_the_object(x, thing, table):
    thing.value = 7
    return x + table["value"]


def _through_the_dict(x, thing, table):
    table["value"] = 7
    return x + thing.value


@pytest.mark.parametrize("fn", [_through_the_object, _through_the_dict])
def test_an_object_and_its_dict_as_arguments(fn):
    def own():
        thing = Thing()
        return tensor(2), thing, thing.__dict__

    def apart():
        return tensor(2), Thing(), {"value": 1}

    check(repeated(1)(fn), *apart(), others=[own(), apart()], graphs=1)
    check(repeated(1)(fn), *own(), others=[apart(), own()], graphs=None)


def _function():
    def made():
        pass

    made.value = 1
    return made


@pytest.mark.parametrize("make", [Thing, _function, lambda: types.SimpleNamespace(value=1)])
def test_an_object_and_its_dict_across_a_break(make):
    def fn(x):
        thing = make()
        table = thing.__dict__
        dl.graph_break()
        table["value"] = 5
        first = x + thing.value
        thing.value = 6
        return first + table["value"]

    check(fn, tensor(2), graphs=None)


@checked(tensor(2), graphs=None)
def test_a_tensor_and_its_dict_across_a_break(x):
    table = x.__dict__
    x.tag = 3
    dl.graph_break()
    table["tag"] = 5
    first = x + x.tag
    x.tag = 6
    return first + table["tag"]


NUMBER = 1


@checked(tensor(2), graphs=None)
@watching("NUMBER")
@recompiling
def test_globals_and_their_dict(x):
    global NUMBER
    NUMBER += 1
    before = x + NUMBER
    globals()["NUMBER"] = 10
    table = globals()
    after = before + NUMBER
    NUMBER = 20
    return after + table["NUMBER"]


def _writes_a_global(x, table):
    global NUMBER
    NUMBER += 1
    return x + table["NUMBER"]


def _writes_a_dict(x, table):
    before = NUMBER
    table["NUMBER"] = before + 1
    return x + NUMBER


@pytest.mark.parametrize("fn", [_writes_a_global, _writes_a_dict])
def test_dict_argument_is_the_globals_in_the_next_call(fn):
    tables = ({"NUMBER": 5}, globals(), {"NUMBER": 5}, globals())
    check(watching("NUMBER")(recompiling(fn)), tensor(2), tables[0], graphs=None, breaks=None)
    compiled = dl.compile(fn, backend="eager")
    for table in tables:
        results = []
        for each in (fn, compiled):
            globals()["NUMBER"] = 1
            results.append(each(torch.zeros(2), table).tolist())
            table["NUMBER"] = 5
        assert results[0] == results[1]


class Shared:
    """A class whose instances all have the same ``__dict__``."""

    state: dict = {}

    def __init__(self):
        self.__dict__ = Shared.state


def _written_at_once(x, one, other):
    one.value = one.value + 1
    return x + other.value, other.value


def _written_after_a_break(x, one, other):
    before = other.value
    one.value = one.value + 1
    dl.graph_break()
    y = x + other.value
    other.value = 7
    return y, one.value, before


@pytest.mark.parametrize("fn", [_written_at_once, _written_after_a_break])
def test_objects_with_one_dict(fn):
    def shared():
        Shared.state.clear()
        Shared.state["value"] = 1
        return tensor(2), Shared(), Shared()

    def apart():
        return tensor(2), Thing(), Thing()

    check(fn, *apart(), others=[apart()], graphs=None, breaks=None)
    compiled = dl.compile(fn, backend="eager")
    for make in (apart, shared, apart, shared):
        assert str(compiled(*make())) == str(fn(*make()))


def test_object_and_its_dict_are_read_while_another_is_mutated():
    """The mutated object is a third one, of the same class."""

    def fn(x, thing, table, twin):
        twin.value = twin.value + 1
        return x + thing.value + table.get("value", 5), twin.value

    def its_own():
        thing = Thing()
        return tensor(2), thing, thing.__dict__, Thing()

    def apart():
        return tensor(2), Thing(), {}, Thing()

    for first, second in ((its_own, apart), (apart, its_own)):
        compiled = dl.compile(fn, backend="eager")
        for make in (first, second, first, second):
            assert str(compiled(*make())) == str(fn(*make()))
        dl.reset()


def test_list_that_contains_itself():
    def fn(x, items):
        items.append(x + 1)
        return items[0] is items, len(items)

    loop = []
    loop.append(loop)
    check(fn, tensor(2), loop, graphs=(0, 1))


def test_property_of_one_argument_mutates_another():
    class Sneaky:
        def __init__(self, items):
            self.items = items

        @property
        def value(self):
            self.items.append("read")
            return len(self.items)

    def fn(x, sneaky, items):
        return x * sneaky.value + sneaky.value, items

    shared = []
    check(fn, tensor(2), Sneaky(shared), shared, operators=2)
