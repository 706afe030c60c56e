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
    "shifted by sizes": lambda x, n, m: (x * (1 << n), n << m, 1000 >> n, -n >> m, 1 << (n - 1).bit_length()),
    "powers of sizes": lambda x, n, m: (x + n ** (m % 4), m ** (n % 5)),
    "bits": lambda x, n, m: (x * (n | 1) + (m ^ 5), n & 6, -n & -4, n | m, n & m, (n + m) ^ -m, -3 | n, 6 & n, 9 ^ -n),
    "counts of bits": lambda x, n, m: (
        x * n.bit_length(),
        (m * 1000).bit_count(),
        (n - m).bit_length(),
        (0 * n).bit_length(),
        int.bit_count(-n),
    ),
    "factorials": lambda x, n, m: (x * math.factorial(n), math.factorial(n - 3)),
    "rounded": lambda x, n, m: (
        x * round(n, -1),
        round(n * 10 + 5, -1),
        round(-n * 10 - 5, -1),
        round(m, 2),
        round(n, None),
        round(n * 777, -3),
    ),
    "methods": lambda x, n, m: (
        x + n.__add__(3),
        n.__radd__(m),
        n.__sub__(2.5),
        n.__rsub__(7),
        (n.__lt__(100), n.__eq__("a"), n.__neg__()),
        n.__abs__(),
        n.__floordiv__(2),
        n.__rfloordiv__(50),
        n.__divmod__(3),
        n.__pow__(2),
        n.__and__(6),
        n.__or__(m),
        n.__truediv__(m),
        n.__float__(),
        n.__round__(),
        n.__round__(-1),
        n.__ceil__(),
        n.__bool__(),
        int.__mul__(n, m),
    ),
    "facts": lambda x, n, m: (
        x + n.imag,
        n.denominator,
        n.__class__,
        n.as_integer_ratio(),
        math.isnan(n),
        math.isinf(m),
    ),
    "divisors of many": lambda x, n, m: (x * math.gcd(n, m, 6), math.lcm(n, 2, m), math.gcd(-n), math.lcm(m)),
    "texts": lambda x, n, m: (
        x + 1,
        "%d" % n,
        "%05d|%s|%%%x" % (n, m, n),
        hex(n),
        bin(-m),
        f"{n:>4}{oct(m)}",
        "%r %s %+d" % (n, "a", m),
    ),
    "sizes made": lambda x, n, m: (
        x.new_ones(torch.Size([m, n])),
        torch.Size([n, m]).numel(),
        torch.Size((n, 2)),
        torch.Size(i + n for i in range(2)),
    ),
    "masks": lambda x, n, m: (x * (n & 1) + (m & 7), -n & 3, n & 0),
    "common divisors": lambda x, n, m: (x * math.gcd(n, m) + math.lcm(n, m), math.gcd(n, 4), math.gcd(m, -n)),
    "common divisors in turn": lambda x, n, m: (x * math.gcd(math.lcm(n, 12), m), math.gcd(n, m) * 2 + 1),
    "roots": lambda x, n, m: (x * math.isqrt(n) + math.isqrt(m * m - 1), math.isqrt(n * m)),
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


def test_floats_by_their_methods():
    def fn(x, f):
        numbers = f.__add__(2), f.__rsub__(1.5), f.__mul__(f), f.__neg__(), f.__abs__(), f.__round__(1), f.__round__()
        more = f.__floor__(), f.__ceil__(), f.__trunc__(), f.__int__(), f.__divmod__(0.75), f.imag, f.__class__
        return x * f.__truediv__(3), numbers, more, f.__radd__("a"), f.is_integer(), "%.2f %8.3e %s" % (f, f, f)

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, fullgraph=True)
    for f in (2.5, 0.75, 3.25, 7.125):
        Pairing().compare(fn(tensor(3), f), compiled(tensor(3), f), "result")
    assert len(recorder.graphs) == 2


def test_bits_decide():
    def fn(x, n):
        if n & 6 == 2 and (n | 1).bit_length() < 6:
            return x * n
        return (x + 1, n ^ 3) if round(n, -1) > 20 else (x - math.factorial(n % 19), n | 1)

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, dynamic=True)
    for n in (2, 3, 10, 34, 27, 35, 19, 26, -5, -14, 2**70, 2**53 + 1, -(2**62)):
        Pairing().compare(fn(tensor(3), n), compiled(tensor(3), n), f"for {n}")
    assert len(recorder.graphs) <= 8


def test_texts_that_format_makes_otherwise():
    def fn(x, n, f):
        found = [
            "%d" % f,
            "%05.1f" % f,
            "%-6d|" % n,
            "%#x" % n,
            "%5s" % n,
            "%.3d" % n,
            "%c" % (n + 60),
            "%i%%" % n,
            "%s" % (n,),
        ]
        for wrong in (
            lambda: "%d %d".__mod__(n),
            lambda: operator.mod("%d", (n, n)),
            lambda: "%d" % x.dtype,
            lambda: operator.mod("%q", n),
        ):
            try:
                found.append(wrong())
            except (TypeError, ValueError) as error:
                found.append(str(error))
        return x + 1, found

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for n, f in ((5, 2.5), (7, -0.125), (5, 1e9), (12, 0.5)):
        Pairing().compare(fn(tensor(3), n, f), compiled(tensor(3), n, f), "result")


def test_integers_out_of_the_range_of_checks():
    programs = (
        lambda x, n: x + 1 if n * n > 5 else x,
        lambda x, n: x + 1 if n**3 % 7 > n else x,
        lambda x, n: x.new_zeros(n * n % 7 + 1),
        lambda x, n: (x.new_zeros(n % 7 + 1), n + 2**63, -n - 2**64 > 0),
        lambda x, n: x + 1 if n * 1.5 > 2 and n * n * 0.5 > 3 else x,
        lambda x, n: (x + 1, n**2 % 6, (n * n | 5) + 1, n - n**2),
        lambda x, n: (x + 1, n ** (abs(n) % 4), math.gcd(n ** (abs(n) % 4), n, 12)),
        lambda x, n: x + 1 if math.gcd(n, 2**40) ** 2 % 11 ^ n > 7 else x,
    )
    for program in programs:
        for values in ((3, 5, 2**40, 2**62, 2**63 - 1, -(2**62), 2**70, 4), (2**40, 5, 2**63 - 1, 4), (2**53 + 1, 6)):
            compiled = dl.compile(program, backend="eager", dynamic=True)
            for n in values:
                Pairing().compare(program(tensor(2), n), compiled(tensor(2), n), f"for {n}")
