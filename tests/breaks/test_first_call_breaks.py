"""Breaks in the first call only: it fills caches that later calls read."""

from __future__ import annotations

import collections
import functools
import os

import pytest
import torch

import dynamo_lite as dl
from programs import tensor


def graphs_of_calls(fn, calls):
    """How many graphs each call compiles. They return what they return in eager, which comes after."""
    counted = []

    def backend(gm, examples):
        counted[-1] += 1
        return gm.forward

    dl.reset()
    compiled = dl.compile(fn, backend=backend)
    found = []
    for args in calls:
        counted.append(0)
        found.append(compiled(*args))
    for result, args in zip(found, calls):
        assert torch.equal(result, fn(*args))
    return counted


def test_a_registry_that_the_first_call_fills():
    kinds = {}

    def of(x):
        found = kinds.get(type(x))
        if found is None:
            found = kinds[type(x)] = len(os.urandom(2))  # can't be traced
        return found

    def careful(x):
        try:
            return x * of(x)
        except RuntimeError:
            return x

    def fn(x):
        return careful(x + 1) + 1

    counts = graphs_of_calls(fn, [(tensor(3),)] * 3)
    assert counts[0] > 1
    assert counts[1:] == [1, 0], counts


@pytest.mark.parametrize("lookup", ["in", "item", "default"])
def test_ways_to_find_nothing(lookup):
    cache = collections.defaultdict(lambda: len(os.urandom(2))) if lookup == "default" else {}

    def of(n):
        if lookup == "in" and n not in cache:
            cache[n] = len(os.urandom(2))
        try:
            return cache[n]
        except KeyError:
            cache[n] = len(os.urandom(2))
        return cache[n]

    def fn(x):
        try:
            return (x + 1) * of(x.dim()) + 1
        except RuntimeError:
            return x

    counts = graphs_of_calls(fn, [(tensor(3),)] * 4)
    assert counts[2:] == [0, 0], counts
    assert counts[1] == 1, counts


def test_a_cached_function_that_has_to_run_after_a_side_effect():
    noted = torch.nn.Module()
    noted.place = "before"

    @functools.lru_cache
    def plan(n, kind):
        return [n, len(os.urandom(kind)) + len(noted.place)]

    def fn(x):
        noted.place = "inside"
        x = x + 1
        return x * plan(x.dim(), 2)[1] + plan(x.dim(), 3)[0]

    counts = graphs_of_calls(fn, [(tensor(3),)] * 4)
    assert counts[0] > 1
    assert counts[1:] == [1, 0, 0], counts


def test_a_cache_that_grows_in_each_call_is_not_waited_for_again(caplog):
    cache = {}

    def remembered(x):
        if len(cache) not in cache:
            cache[len(cache)] = len(os.urandom(2))
        return x * 2

    def fn(x):
        try:
            return remembered(x + 1) + 1
        except RuntimeError:
            return x

    with caplog.at_level("INFO", logger="dynamo_lite.recompiles"):
        graphs_of_calls(fn, [(tensor(3),)] * 5)
    assert sum(".fn (" in each.getMessage() for each in caplog.records) == 1


def test_a_library_that_looks_for_its_backend(monkeypatch):
    backends = pytest.importorskip("einops._backends")
    for found in ("_loaded_backends", "_type2backend"):
        monkeypatch.setattr(backends, found, {})  # as in a process where nothing was looked for yet

    def fn(x):
        return backends.get_backend(x).transpose(x + 1, (1, 0)) * 2

    counts = graphs_of_calls(fn, [(torch.ones(2, 3),)] * 3)
    assert counts[2] == 0, counts
