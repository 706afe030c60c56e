"""A function with many breaks: what it keeps grows with their number, not with its square."""

from __future__ import annotations

import gc
import traceback
import tracemalloc

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.bytecode import Instruction
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
    assert bytes_of_many < 4.6 * bytes_of_few
    graphs = dl.counters.graphs
    for compiled, count in ((few, 25), (many, 100)):
        assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), float(count)))
    assert dl.counters.graphs == graphs
    assert torch.equal(many(torch.zeros(2, dtype=torch.float64)), torch.full((2,), 100.0, dtype=torch.float64))


def calls(fn):
    return lambda x: fn(x) * 1


@pytest.mark.parametrize("around", [lambda fn: fn, calls], ids=["frame", "inlined"])
def test_instructions_made_grow_with_the_number_of_breaks(around, monkeypatch):
    created, made = Instruction.__init__, 0

    def count_created(self, *args, **kwargs):
        nonlocal made
        made += 1
        created(self, *args, **kwargs)

    def made_in_a_call(count):
        nonlocal made
        made = 0
        assert torch.equal(
            dl.compile(around(with_breaks(count)), backend="eager")(torch.zeros(2)), torch.full((2,), float(count))
        )
        return made

    monkeypatch.setattr(Instruction, "__init__", count_created)
    few = made_in_a_call(50)
    assert made_in_a_call(150) < 3.3 * few


LONG = "".join(f"    note({number})\n" for number in range(60))


def test_the_rest_of_a_long_function_in_eager_raises_at_the_same_lines():
    body = f"    y = x + 1\n    cell = [n]\n    get = lambda: (cell, n)\n    note(1)\n{LONG}"
    block = "    try:\n        1 // n\n    finally:\n        cell.append(get()[1])\n"
    source = f"def fn(x, n):\n{body}{block}    return y, cell\n"
    fn = define(source, note=note).fn
    compiled = dl.compile(fn, backend="eager")
    for n in (1, 2):
        for mine, eager in zip(compiled(torch.ones(2), n), fn(torch.ones(2), n), strict=True):
            assert torch.equal(mine, eager) if isinstance(mine, torch.Tensor) else mine == eager
    places = []
    for call in (compiled, fn):
        with pytest.raises(ZeroDivisionError) as caught:
            call(torch.ones(2), 0)
        frames = traceback.extract_tb(caught.value.__traceback__)
        places.append([(each.name, each.lineno) for each in frames if each.name == "fn"])
    assert places[0] == places[1]


def test_the_rest_of_a_long_function_waits_for_the_allowance(monkeypatch):
    monkeypatch.setattr(dl.config, "enable_allowance", 0.0)
    fn = with_breaks(60)
    with dl.enable(backend="eager"):
        for _ in range(6):
            assert torch.equal(fn(torch.zeros(2)), torch.full((2,), 60.0))


def test_the_rest_of_a_long_function_runs_in_eager_at_the_limit(monkeypatch):
    monkeypatch.setattr(dl.config, "recompile_limit", 1)
    compiled = dl.compile(with_breaks(60), backend="eager")
    for dtype in (torch.float32, torch.float64, torch.int64):
        x = torch.zeros(2, dtype=dtype)
        assert torch.equal(compiled(x), torch.full((2,), 60, dtype=dtype))
