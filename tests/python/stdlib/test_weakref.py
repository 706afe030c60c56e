"""Weak containers, which CPython reads between the graphs."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, tensor


class Thing:
    scale = 2


class Equal(Thing):
    def __eq__(self, other):
        return isinstance(other, Equal)

    __hash__ = None


def agree(fn, *calls, breaks=None):
    """``calls``: arguments, or functions that change something between two calls."""
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
    one, other, new = Thing(), Thing(), Thing()
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


def test_a_key_that_is_not_there():
    one, other = Thing(), Thing()
    table = weakref.WeakKeyDictionary({one: 5})

    def fn(x, key):
        return x * table.get(key, 3), table.get(key), key in table

    agree(fn, (other,), (other,), (one,), lambda: table.update({other: 4}), (other,), (one,))


def test_modules_as_keys():
    layer = torch.nn.Linear(2, 2)
    table = weakref.WeakKeyDictionary({layer: 0.5})

    def fn(x):
        return (layer(x) * table[layer],)

    agree(fn, (), (), lambda: table.update({layer: 0.25}), ())


def test_a_set_and_a_dictionary_of_weak_values():
    one, other = Thing(), Thing()
    members = weakref.WeakSet([one])
    table = weakref.WeakValueDictionary({"a": one})

    def fn(x, key):
        return x * 2 if key in members else x, table["a"].scale, "b" in table, table.get("b") is other

    agree(
        fn,
        *((one,), (one,), (other,)),
        *(lambda: members.add(other), (other,), (one,)),
        *(lambda: table.update(b=other), (one,)),
        *(lambda: table.update(a=other), (one,)),
        *(lambda: setattr(other, "scale", 9), (one,)),
        *(lambda: members.discard(one), (one,)),
    )


def test_an_entry_that_died():
    things = [Thing(), Thing()]
    table = weakref.WeakValueDictionary(a=things[0], b=things[1])
    members = weakref.WeakSet(things)

    def fn(x):
        return x + 1, "a" in table, table.get("a", None) is None, things[-1] in members

    def drop():
        del things[0]
        gc.collect()

    agree(fn, (), (), drop, (), ())


def test_keys_that_compare_are_left_to_python():
    class Hashed(Equal):
        def __hash__(self):
            return 1

    one, other = Hashed(), Hashed()
    table = weakref.WeakKeyDictionary({one: 5})

    def fn(x, key):
        return x * table[key], key in table

    agree(fn, (one,), (other,), (one,))


@pytest.mark.parametrize("kind", [weakref.WeakKeyDictionary, weakref.WeakSet])
def test_nothing_is_kept_alive(kind):
    thing = Thing()
    table = kind({thing: 5})

    def fn(x, key):
        return x * 2 if key in table else x

    compiled = dl.compile(fn, backend="eager")
    torch.testing.assert_close(compiled(tensor(2), thing), tensor(2) * 2)
    watched = weakref.ref(thing)
    del thing
    gc.collect()
    assert watched() is None and len(table) == 0
    torch.testing.assert_close(compiled(tensor(2), Thing()), tensor(2))
