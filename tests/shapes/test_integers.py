"""Functions and operators of integers that change from call to call, in one graph."""

from __future__ import annotations

import math
import operator

import pytest
import torch

from programs import tensor
from sweeps import sweep, swept

SHAPES = ((4, 6), (5, 3), (7, 9), (6, 6))

YES, NO = True, False

PROGRAMS = {
    "compared with bools": lambda x, n, m: (x * (n <= YES) + (YES < m), n == YES, NO != m, n >= (m > 1), n < NO),
    "beside bools": lambda x, n, m: (x * (n + YES) - (YES - m), n * NO, m // YES, -n % YES, NO // n, (n > 1) + m),
    "min and max": lambda x, n, m: (x * min(n, m), x + max(n, m, 5), x - max([n, m]), x * min((m, 4))),
    "absolute": lambda x, n, m: (x * abs(n - m) + abs(m), abs(5 - n), abs(n * m), abs(n) == n),
    "returned": lambda x, n, m: (x + 1, min(n, m), max(n, 5) * 2, (max(m - n, 0), n << 2, ~m)),
    "of a slice": lambda x, n, m: (x[: min(n, 100)] + 1, x[:, : min(m, 200) - 1].sum()),
    "shifts": lambda x, n, m: (x * (n << 1) + (m >> 1), (n + m) >> 3, -n >> 1, n << 0),
    "shifted by sizes": lambda x, n, m: (x * (1 << n), n << m, 1000 >> n, -n >> m, 1 << (n - 1).bit_length()),
    "powers of sizes": lambda x, n, m: (x + n ** (m % 4), m ** (n % 5)),
    "bits": lambda x, n, m: (x * (n | 1) + (m ^ 5), n & 6, -n & -4, n | m, n & m, (n + m) ^ -m, -3 | n, 6 & n, 9 ^ -n),
    "texts": lambda x, n, m: (
        x + 1,
        f"{n:>4}{m!r}",
        "{} of {}".format(n, "a"),
    ),
    "sizes made": lambda x, n, m: (
        x.new_ones(torch.Size([m, n])),
        torch.Size([n, m]).numel(),
        torch.Size((n, 2)),
        torch.Size(i + n for i in range(2)),
    ),
    "masks": lambda x, n, m: (x * (n & 1) + (m & 7), -n & 3, n & 0),
    "powers": lambda x, n, m: (x * pow(n, 2, 7) + pow(m, 3), pow(2, n), pow(n, 3, -m), math.pow(n, 2)),
    "inverted": lambda x, n, m: (x * ~n, ~(n - m)),
    "asked for what they lack": lambda x, n, m: (x * torch.sym_float(n), hasattr(m, "shape"), getattr(n, "item", 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name):
    program = PROGRAMS[name]

    def fn(x):
        return program(x, *x.shape)

    sweep(fn, [(tensor(*shape),) for shape in SHAPES], graphs=1, dynamic=True, fullgraph=True)


@swept([(tensor(3), n) for n in (5, 7, 12, 5)], graphs=None, dynamic=True, fullgraph=True)
def test_a_graph_for_each_number(x, n):
    facts = n.real, n.__add__(3), n.__round__(-1), (n - 3).bit_count(), round(n * 777, -3), math.isnan(n), n.imag
    texts = "%d|%s" % (n, n), hex(n), "%r %+d" % (n, n)
    return x * math.gcd(n, 6) + math.isqrt(n), math.lcm(n, 2, 3), math.fabs(-n), facts, texts


@swept([(tensor(3), n) for n in (5, 7, 5)], graphs=None, dynamic=True)
def test_functions_that_raise_for_some_integers(x, n):
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


@swept([(tensor(4, 3),)], graphs=None, dynamic=True)
def test_wrong_operands_raise_as_in_eager(x):
    found = []
    for call in (lambda n: n << -1, lambda n: n >> -1, lambda n: min(n), lambda n: n & 1.5):
        try:
            found.append(call(x.size(0)))
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return x + 1, found


def test_bits_decide():
    def fn(x, n):
        if n & 6 == 2 and (n | 1).bit_length() < 6:
            return x * n
        return (x + 1, n ^ 3) if round(n, -1) > 20 else (x - (n % 19), n | 1)

    numbers = (2, 3, 10, 34, 27, 35, 19, 26, -5, -14, 2**70, 2**53 + 1, -(2**62))
    recorder = sweep(fn, [(tensor(3), n) for n in numbers], graphs=None, dynamic=True)
    assert len(recorder.graphs) <= 8


@swept([(tensor(3), n, f) for n, f in ((5, 2.5), (7, -0.125), (5, 1e9), (12, 0.5))], graphs=None, dynamic=True)
def test_format_specs_that_need_the_number(x, n, f):
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
            sweep(program, [(tensor(2), n) for n in values], graphs=None, dynamic=True)


def write_rows(x, rows):
    y = x * 2
    y[rows] = 1.0
    y[0, rows] += x[0, 0]
    return y


LISTS = {
    "an index": lambda x, rows: (x[rows] * 2, x[:, rows], x[[rows[0], 1]]),
    "an index of a write": write_rows,
    "a new tensor": lambda x, rows: (
        x.new_tensor(rows),
        x.new_tensor(rows, dtype=torch.int64),
        x + x.new_tensor(rows[0]),
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_numbers(name):
    """A list that the program chose from data (beams that are left, boxes that match) is no other graph."""
    calls = [(tensor(8, 8), rows) for rows in ([2, 3], [3, 5], [7, 2], [4, -1], [6, 6])]
    sweep(LISTS[name], calls, graphs=2)


@pytest.mark.fails_on_data
@swept([(tensor(8), rows) for rows in ([2, 3], [3, 4], [5, 9], [-9, 2])], graphs=2)
def test_a_list_with_an_index_out_of_range(x, rows):
    y = x * 2
    try:
        return y[rows]
    except IndexError as error:
        return y, str(error)
