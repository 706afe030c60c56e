"""Functions and operators of integers that differ from call to call, which are in one graph."""

from __future__ import annotations

import operator

import pytest
import torch

import dynamo_lite as dl
from equality import Pairing
from programs import Recorder, tensor

SHAPES = ((4, 6), (5, 3), (7, 9), (6, 6))

PROGRAMS = {
    "min and max": lambda x, n, m: (x * min(n, m), x + max(n, m, 5), x - max([n, m]), x * min((m, 4))),
    "returned": lambda x, n, m: (x + 1, min(n, m), max(n, 5) * 2, (max(m - n, 0), n << 2, ~m)),
    "of a slice": lambda x, n, m: (x[: min(n, 100)] + 1, x[:, : min(m, 200) - 1].sum()),
    "shifts": lambda x, n, m: (x * (n << 1) + (m >> 1), (n + m) >> 3, -n >> 1, n << 0),
    "masks": lambda x, n, m: (x * (n & 1) + (m & 7), -n & 3, n & 0),
    "inverted": lambda x, n, m: (x * ~n, ~(n - m)),
    "asked for what they lack": lambda x, n, m: (x * torch.sym_float(n), hasattr(m, "shape"), getattr(n, "item", 3)),
    "parts": lambda x, n, m: (x * n.real + m.numerator, n.conjugate(), m.__index__(), operator.index(n)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name):
    program = PROGRAMS[name]

    def fn(x):
        return program(x, *x.shape)

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, dynamic=True, fullgraph=True)
    for shape in SHAPES:
        Pairing().compare(fn(tensor(*shape)), compiled(tensor(*shape)), name)
    assert len(recorder.graphs) == 1


def test_decided_by_the_least():
    def fn(x):
        return x * 2 if min(x.size(0), 6) == 6 else x + min(x.size(0), x.size(1))

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, dynamic=True)
    for shape in SHAPES:
        Pairing().compare(fn(tensor(*shape)), compiled(tensor(*shape)), "result")
    assert len(recorder.graphs) == 2


def test_wrong_operands_raise_as_in_eager():
    def fn(x):
        found = []
        for call in (lambda n: n << -1, lambda n: n >> -1, lambda n: min(n), lambda n: n & 1.5):
            try:
                found.append(call(x.size(0)))
            except (TypeError, ValueError) as error:
                found.append(str(error))
        return x + 1, found

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    Pairing().compare(fn(tensor(4, 3)), compiled(tensor(4, 3)), "result")
