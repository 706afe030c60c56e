"""Functions and operators of integers that differ from call to call, which are in one graph."""

from __future__ import annotations

import math
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
    "common divisors": lambda x, n, m: (x * math.gcd(n, m) + math.lcm(n, m), math.gcd(n, 4), math.gcd(m, -n)),
    "common divisors in turn": lambda x, n, m: (x * math.gcd(math.lcm(n, 12), m), math.gcd(n, m) * 2 + 1),
    "roots": lambda x, n, m: (x * math.isqrt(n) + math.isqrt(m * m - 1), math.isqrt(n * m)),
    "choices": lambda x, n, m: (x * math.comb(n, 2) + math.perm(m, 3), math.comb(n + m, 3)),
    "powers": lambda x, n, m: (x * pow(n, 2, 7) + pow(m, 3), pow(2, n), pow(n, 3, -m), math.pow(n, 2), math.fabs(-n)),
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


def test_decided_by_a_common_divisor():
    def fn(x):
        common = math.gcd(*x.shape)
        return x * common if common > 1 else x + abs(x.size(0) - x.size(1))

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, dynamic=True)
    for shape in (*SHAPES, (9, 6), (8, 5), (5, 8)):
        Pairing().compare(fn(tensor(*shape)), compiled(tensor(*shape)), "result")
    assert len(recorder.graphs) == 3


def test_functions_that_refuse():
    def fn(x, n):
        found = []
        for call in (
            lambda: math.isqrt(n - 10),
            lambda: math.comb(n, 9),
            lambda: math.comb(n - 10, 2),
            lambda: math.perm(n, n + 1),
            lambda: pow(n, -1, 6),
            lambda: pow(n, 2, n - n),
            lambda: math.gcd(n, 2.0),
            lambda: math.gcd(n),
            lambda: math.gcd(n, 4, 6),
            lambda: math.gcd(0, n - n),
            lambda: math.lcm(0, n),
            lambda: math.pow(n - 10, 0.5),
        ):
            try:
                found.append(call())
            except (TypeError, ValueError) as error:
                found.append(str(error))
        return x + 1, found

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for n in (5, 7, 5):
        Pairing().compare(fn(tensor(3), n), compiled(tensor(3), n), "result")


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
