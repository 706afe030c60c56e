"""Graph breaks of the first call alone: it fills what the program finds in the calls after."""

from __future__ import annotations

import collections
import functools
import os

import pytest
import torch

import dynamo_lite as dl
from processes import run_program
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
    @functools.lru_cache
    def plan(n, kind):
        return [n, len(os.urandom(kind))]

    noted = torch.nn.Module()
    noted.place = "before"

    def fn(x):
        noted.place = "inside"
        x = x + 1
        return x * plan(x.dim(), 2)[1] + plan(x.dim(), 3)[0]

    counts = graphs_of_calls(fn, [(tensor(3),)] * 4)
    assert counts[0] > 1
    assert counts[1:] == [1, 0, 0], counts


def test_a_cached_function_with_another_key_in_each_call(caplog):
    @functools.lru_cache
    def plan(n):
        return len(os.urandom(2))

    counter = torch.nn.Module()
    counter.calls = 0

    def remembered(x):
        return x * plan(counter.calls)

    def fn(x):
        counter.calls = counter.calls + 1
        try:
            return remembered(x + 1) + 1
        except RuntimeError:
            return x

    compiled = dl.compile(fn, backend="eager")
    with caplog.at_level("INFO", logger="dynamo_lite.recompiles"):
        for _ in range(5):
            compiled(tensor(3))
    assert counter.calls == 5
    assert plan.cache_info().currsize == 5


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
    assert sum(".fn is translated again" in each.getMessage() for each in caplog.records) == 1


def test_a_library_that_looks_for_its_backend():
    """In a process of its own, where nothing was looked for yet."""
    pytest.importorskip("einops")
    program = """
import torch
import dynamo_lite as dl
from einops import rearrange

graphs = []

@dl.compile(backend=lambda gm, examples: graphs.append(gm) or gm.forward)
def fn(x):
    return rearrange(x + 1, "a b -> b a") * 2

x = torch.ones(2, 3)
for _ in range(2):
    fn(x)
before = len(graphs)
assert torch.equal(fn(x), (x + 1).T * 2)
assert len(graphs) == before
assert sum(node.op.startswith("call") for node in graphs[-1].graph.nodes) == 3
"""
    run = run_program(program)
    assert run.returncode == 0, run.stderr
