"""A function that is called without tensors first runs in eager. Calls with tensors are captured all the same."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, tensor

Pair = namedtuple("Pair", "one other")


def doubled(value):
    return value * 2 + 1


def first(value):
    while isinstance(value, (list, tuple, dict)):
        value = value["a"] if isinstance(value, dict) else value[0]
    return value * 2


def of_all(*values, **named):
    return (values[0] if values else named["a"]) * 2


CALLS = {
    "a number": (doubled, 3, tensor(3)),
    "a float": (doubled, 3.5, torch.nn.Parameter(tensor(3))),
    "a list": (first, [3, "a"], [tensor(3), "a"]),
    "lists in a tuple": (first, ([3],), ([tensor(3)],)),
    "a dict": (first, {"a": [3]}, {"a": [tensor(3)]}),
    "a named tuple": (first, Pair(1, 2), Pair(tensor(3), 2)),
    "arguments": (of_all, 1, tensor(3)),
    "an array": (doubled, 3, np.arange(3.0)),
}


def equal(one, other):
    return bool((torch.as_tensor(one) == torch.as_tensor(other)).all())


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.on_cpu
def test_numbers_first(name):
    fn, number, tensors = CALLS[name]
    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    skips = dl.counters.skips
    for value, graphs, runs in ((number, 0, 0), (tensors, 1, 1), (number, 1, 1), (tensors, 1, 2)):
        assert equal(compiled(value), fn(value))
        assert (len(recorder.graphs), recorder.runs) == (graphs, runs)
    assert dl.counters.skips == skips + 1


def test_keyword_arguments():
    recorder = Recorder()
    compiled = dl.compile(of_all, backend=recorder)
    assert compiled(a=1) == 2
    assert torch.equal(compiled(a=tensor(2)), tensor(2) * 2) and recorder.runs == 1


def test_numbers_after_tensors():
    recorder = Recorder()
    compiled = dl.compile(doubled, backend=recorder)
    for runs, value in ((1, tensor(3)), (1, 3), (2, tensor(3)), (2, 4), (3, tensor(3))):
        assert equal(compiled(value), doubled(value))
        assert recorder.runs == runs


@pytest.mark.on_cpu
def test_helpers_under_enable():
    recorder = Recorder()

    def scaled(value, factor):
        dl.graph_break()
        return doubled(value) * factor

    with dl.enable(backend=recorder):
        assert [scaled(each, 2) for each in (1, 2, 3)] == [6, 10, 14]
        assert not recorder.graphs
        found = [scaled(tensor(size), 2) for size in (2, 3, 4)]
    assert recorder.runs == 3
    assert all(map(equal, found, [scaled(tensor(size), 2) for size in (2, 3, 4)]))


def test_no_tensor_is_looked_up_again_and_again():
    compiled = dl.compile(first, backend="eager")
    skips = dl.counters.skips
    for value in (3, 4.0, [1], [1, 2], {"a": 1}, (1,), True, np.float64(3)):
        assert compiled(value) == first(value)
    assert dl.counters.skips == skips + 1


def test_an_array_that_is_only_passed_on():
    def fn(value, log):
        log.append(value)
        return value

    compiled = dl.compile(fn, backend="eager")
    skips = dl.counters.skips
    array, log = np.arange(3), []
    for value in (1, array, 2, array, array):
        assert compiled(value, log) is value
    assert log[1] is array and dl.counters.skips <= skips + 2
