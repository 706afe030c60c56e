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


def test_modules_as_keys():
    layer = torch.nn.Linear(2, 2)
    table = weakref.WeakKeyDictionary({layer: 0.5})

    def fn(x):
        return (layer(x) * table[layer],)

    agree(fn, (), (), lambda: table.update({layer: 0.25}), ())


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
