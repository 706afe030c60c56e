"""Weak references: pre-existing, dead, and created during tracing; weak containers."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import Recorder, built, check, checked, tensor


class Thing:
    def __init__(self, n):
        self.n = n


@checked(tensor(3), operators=1)
@built
def test_reference_is_followed():
    thing = Thing(3)
    ref = weakref.ref(thing)

    def fn(x):
        return ref() is thing, x * ref().n

    return fn


def test_reference_whose_referent_is_deallocated_between_calls():
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
    check(built(build), x, False, graphs=(1, 2), breaks=None, others=[(x, True), (x, False)])


@checked(tensor(2, 3), graphs=None, breaks=None)
@built
def test_reference_created_in_tracing_to_a_pre_existing_object():
    layer = nn.Linear(3, 3)
    nn.init.ones_(layer.weight)
    nn.init.ones_(layer.bias)

    def fn(x):
        layer.ref = weakref.ref(layer.weight)
        return layer(x)

    return lambda x: (fn(x), layer.ref() is layer.weight)


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


def over_a_break(x):
    thing = Thing(3)
    ref = weakref.ref(thing)
    dl.graph_break()
    return x * ref().n, ref() is thing


@pytest.mark.parametrize("fn", [tree, of_a_global, of_a_variable, over_a_break])
def test_references_to_live_objects(fn):
    check(fn, tensor(3), graphs=None, breaks=None)


def let_go(x):
    thing = Thing(3)
    ref = weakref.ref(thing)
    y = x * ref().n
    thing = None
    return y, ref() is None, thing


def let_go_by_an_object(x):
    holder = Thing(Thing(3))
    refs = [weakref.ref(holder.n)]
    holder.n = None
    dl.graph_break()
    return x + 1, refs[0]() is None


@pytest.mark.parametrize("fn", [let_go, let_go_by_an_object])
def test_dead_in_time(fn):
    check(fn, tensor(3), graphs=None, breaks=(1, 2))


@checked(tensor(3), [Thing(3)], graphs=None)
def test_argument_dropped_by_the_program(x, things):
    thing = things.pop()
    ref = weakref.ref(thing)
    alive = ref() is thing
    del thing
    return x + 1, alive, ref() is None


# -- weak containers, which CPython reads between the graphs ----------------------------------------------------------


def agree(fn, *calls, breaks=None):
    """Compares eager and compiled. ``calls``: arguments, or functions that change something between two calls."""
    seen = []
    recorder = Recorder()
    dl.counters.reset()
    compiled = dl.compile(fn, backend=recorder)
    for given in calls:
        if callable(given):
            given()
            continue
        outcome = []
        for call in (fn, compiled):
            try:
                result = call(tensor(2), *given)
                outcome.append([each.tolist() if isinstance(each, torch.Tensor) else each for each in result])
            except KeyError:
                outcome.append(KeyError)
        seen.append(outcome)
    assert all(one == other for one, other in seen), seen
    assert breaks is None or dl.counters.graph_breaks == breaks, dl.counters.break_reasons


def test_a_dictionary_of_weak_keys():
    one, other, new = Thing(2), Thing(2), Thing(2)
    table = weakref.WeakKeyDictionary({one: 5, other: 7})

    def fn(x, key):
        return x * table[key], table.get(key), key in table

    agree(
        fn,
        *((one,), (one,), (other,), (one,)),
        *(lambda: table.update({one: 6}), (one,), (other,)),
        *(lambda: table.update({new: 1}), (one,), (new,)),
        *(lambda: table.pop(one), (one,), (other,)),
    )


def test_modules_as_keys():
    layer = torch.nn.Linear(2, 2)
    table = weakref.WeakKeyDictionary({layer: 0.5})

    def fn(x):
        return (layer(x) * table[layer],)

    agree(fn, (), (), lambda: table.update({layer: 0.25}), ())


@pytest.mark.parametrize("kind", [weakref.WeakKeyDictionary, weakref.WeakSet])
def test_nothing_is_kept_alive(kind):
    thing = Thing(2)
    table = kind({thing: 5})

    def fn(x, key):
        return x * 2 if key in table else x

    compiled = dl.compile(fn, backend="eager")
    torch.testing.assert_close(compiled(tensor(2), thing), tensor(2) * 2)
    watched = weakref.ref(thing)
    del thing
    gc.collect()
    assert watched() is None and len(table) == 0
    torch.testing.assert_close(compiled(tensor(2), Thing(2)), tensor(2))


LAYER, OTHER, HOLDER = nn.Linear(3, 3), Thing(2), Thing(3)
HOLDER.part = Thing(4)
TABLE = {weakref.ref(LAYER): 2, weakref.ref(OTHER): 3}


def calls_what_it_refers_to(x):
    reference = weakref.ref(LAYER)
    return reference()(x), reference() is LAYER, weakref.ref(LAYER) is reference


def refers_to_arguments(x, thing):
    references = weakref.ref(x), weakref.ref(thing)
    return x + 1, references[0]() is x, references[1]() is thing


def uses_as_keys(x, thing):
    numbers = {weakref.ref(thing): 1, weakref.ref(LAYER): 2}
    numbers[weakref.ref(thing)] += 5
    seen = {weakref.ref(LAYER), weakref.ref(LAYER), weakref.ref(thing)}
    return x + numbers[weakref.ref(thing)] + len(seen), weakref.ref(OTHER) in seen


def looks_up_in_a_table(x):
    return x * TABLE[weakref.ref(OTHER)], weakref.ref(LAYER) in TABLE, weakref.ref(HOLDER) in TABLE


@pytest.mark.parametrize(
    "fn, args",
    [
        (calls_what_it_refers_to, ()),
        (refers_to_arguments, (Thing(1),)),
        (uses_as_keys, (Thing(1),)),
        (looks_up_in_a_table, ()),
    ],
)
def test_references_created_to_live_objects(fn, args):
    x = tensor(2, 3)
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        results = zip(compiled(x, *args), fn(x, *args), strict=True)
        assert all(torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other for one, other in results)


def counts_keys(x, one, other):
    return x + len({weakref.ref(one): 1, weakref.ref(other): 2})


def test_keys_that_refer_to_one_object_or_two():
    one, other = Thing(1), Thing(2)
    compiled = dl.compile(counts_keys, backend="eager")
    for pair in ((one, other), (one, one), (other, one)):
        assert torch.equal(compiled(tensor(3), *pair), counts_keys(tensor(3), *pair))


def drops_an_argument(x, things):
    thing = things.pop()
    reference = weakref.ref(thing)
    del thing
    return x + 1, reference() is None


def replaces_an_attribute(x, things):
    reference = weakref.ref(HOLDER.part)
    HOLDER.part = things[0]
    return x + 1, reference() is None, reference


def over_a_break_to_an_argument(x, things):
    thing = things[0]
    reference = weakref.ref(thing)
    print("between")
    return x + 1, reference() is thing


def refuses(x, things):
    try:
        return weakref.ref(3)
    except TypeError as error:
        return x + 1, str(error)


@pytest.mark.parametrize("fn", [drops_an_argument, replaces_an_attribute, over_a_break_to_an_argument, refuses])
def test_references_created_to_objects_that_may_be_deallocated(fn):
    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        (x, *rest), (y, *others) = (each(tensor(3), [Thing(1)]) for each in (compiled, fn))
        same = [one() is other() if isinstance(one, weakref.ref) else one == other for one, other in zip(rest, others)]
        assert torch.equal(x, y) and all(same)
