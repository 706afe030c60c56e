"""Weak references: to what the program has, dead ones, and those made inside."""

from __future__ import annotations

import weakref

import pytest
from torch import nn

import dynamo_lite as dl
from programs import check, tensor


class Thing:
    def __init__(self, n):
        self.n = n


def test_reference_is_followed():
    def build():
        thing = Thing(3)
        ref = weakref.ref(thing)

        def fn(x):
            return ref() is thing, x * ref().n

        return fn

    check(build, tensor(3), build=True, operators=1)


def test_dead_reference():
    def build():
        ref = weakref.ref(Thing(3))

        def fn(x):
            found = ref()
            return x + 1 if found is None else x * found.n

        return fn

    check(build, tensor(3), build=True, operators=1)


def test_reference_that_dies_between_calls():
    def build():
        things = [Thing(3)]
        ref = weakref.ref(things[0])

        def fn(x):
            found = ref()
            return x + 1 if found is None else x * found.n

        def program(x, drop):
            if drop:
                things.clear()
            return fn(x)

        return program

    x = tensor(3)
    check(build, x, False, build=True, graphs=(1, 2), breaks=None, others=[(x, True), (x, False)])


def test_reference_made_inside_to_what_the_program_has():
    def build():
        layer = nn.Linear(3, 3)
        nn.init.ones_(layer.weight)
        nn.init.ones_(layer.bias)

        def fn(x):
            layer.ref = weakref.ref(layer.weight)
            return layer(x)

        return lambda x: (fn(x), layer.ref() is layer.weight)

    check(build, tensor(2, 3), build=True, graphs=None, breaks=None)


def test_reference_to_what_is_made_inside():
    def fn(x):
        thing = Thing(3)
        ref = weakref.ref(thing)
        y = x * ref().n
        del thing
        return y, ref() is None

    check(fn, tensor(3), graphs=(0, 2))


class Node:
    def __init__(self):
        self.above, self.below = None, []

    def add(self, node):
        self.below.append(node)
        node.above = weakref.ref(self)
        return node

    @property
    def parent(self):
        return None if self.above is None else self.above()


class Equal:
    def __eq__(self, other):
        return True

    __hash__ = None


THING = Thing(4)
HELD = weakref.ref(THING)


def tree(x):
    root = Node()
    one = root.add(Node())
    other = one.add(Node())
    return x + 1, other.parent is one, one.parent is root, root.parent


def of_a_global(x):
    ref = weakref.ref(THING)
    return x + ref().n, ref is weakref.ref(THING), ref() is HELD(), HELD().n


def of_a_variable(x):
    thing = Thing(3)
    ref = weakref.ref(thing)

    def follow():
        return ref().n

    return x + ref().n + follow(), thing


def of_a_tensor(x):
    y = x + 1
    ref = weakref.ref(y)
    return ref() * 2, y


def of_what_a_callee_is_given(x):
    def follow(thing):
        return weakref.ref(thing)().n

    return x + follow(Thing(3)) + follow(THING)


def of_what_has_none(x):
    texts = []
    for each in (3, [3], "a"):
        try:
            weakref.ref(each)
        except TypeError as error:
            texts.append(str(error))
    return x + 1, texts


def over_a_break(x):
    thing = Thing(3)
    ref = weakref.ref(thing)
    dl.graph_break()
    return x * ref().n, ref() is thing


def over_a_break_where_it_is_not_used_again(x):
    thing = Thing(3)
    ref = weakref.ref(thing)
    dl.graph_break()
    return x + 1, ref() is None


@pytest.mark.parametrize(
    "fn", [tree, of_a_global, of_a_variable, of_a_tensor, of_what_a_callee_is_given, of_what_has_none]
)
def test_alive(fn):
    check(fn, tensor(3))


@pytest.mark.parametrize("fn", [over_a_break, over_a_break_where_it_is_not_used_again])
def test_alive_over_a_break(fn):
    check(fn, tensor(3), graphs=None, breaks=None)


def let_go(x):
    thing = Thing(3)
    ref = weakref.ref(thing)
    y = x * ref().n
    thing = None
    return y, ref() is None, thing


def let_go_by_a_callee(x):
    def make():
        thing = Thing(3)
        return weakref.ref(thing)

    return x + 1, make()() is None


def let_go_by_a_list(x):
    things = [Thing(3)]
    ref = weakref.ref(things[0])
    things.clear()
    return x + 1, ref() is None


def let_go_by_an_object(x):
    holder = Thing(Thing(3))
    refs = [weakref.ref(holder.n)]
    holder.n = None
    dl.graph_break()
    return x + 1, refs[0]() is None


@pytest.mark.parametrize("fn", [let_go, let_go_by_a_callee, let_go_by_a_list, let_go_by_an_object])
def test_dead_in_time(fn):
    check(fn, tensor(3), graphs=None, breaks=(1, 2))


def test_an_argument_that_is_let_go():
    def fn(x, things):
        thing = things.pop()
        ref = weakref.ref(thing)
        alive = ref() is thing
        del thing
        return x + 1, alive, ref() is None

    check(fn, tensor(3), [Thing(3)], graphs=None)


def test_references_are_equal_by_what_they_refer_to():
    def fn(x):
        one, other = Equal(), Equal()
        return x + 1, weakref.ref(one) == weakref.ref(other)

    check(fn, tensor(3), graphs=None)
