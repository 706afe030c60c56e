"""Weak references: to what the program has, dead ones, and those made inside."""

from __future__ import annotations

import weakref

from torch import nn

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

    check(build, tensor(3), build=True, graphs=1, breaks=(0, 1), operators=1)


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

    check(build, tensor(2, 3), build=True, graphs=1, breaks=1)


def test_reference_to_what_is_made_inside():
    def fn(x):
        thing = Thing(3)
        ref = weakref.ref(thing)
        y = x * ref().n
        del thing
        return y, ref() is None

    check(fn, tensor(3), graphs=(0, 2))
