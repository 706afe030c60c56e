"""A function with many breaks: what it keeps grows with their number, not with its square."""

from __future__ import annotations

import gc
import tracemalloc

import torch

import dynamo_lite as dl
from frames import define


@dl.disable
def note(number):
    return number


def with_breaks(count):
    lines = "".join(f"    x = x + 1\n    note({number})\n" for number in range(count))
    return define(f"def fn(x):\n{lines}    return x\n", note=note).fn


def kept_after_a_call(count):
    """The compiled function, and the bytes that compiling it has left."""
    compiled = dl.compile(with_breaks(count), backend="eager")
    gc.collect()
    tracemalloc.start()
    try:
        assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), float(count)))
        gc.collect()
        return compiled, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_number_of_breaks():
    kept_after_a_call(2)  # what is imported and cached once
    few, bytes_of_few = kept_after_a_call(25)
    many, bytes_of_many = kept_after_a_call(100)
    assert bytes_of_many < 6 * bytes_of_few
    graphs = dl.counters.graphs
    for compiled, count in ((few, 25), (many, 100)):
        assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), float(count)))
    assert dl.counters.graphs == graphs
    assert torch.equal(many(torch.zeros(2, dtype=torch.float64)), torch.full((2,), 100.0, dtype=torch.float64))
