"""Functions of numpy's that are in graphs for all but a few items, of which torch's versions give something else."""

from __future__ import annotations

import pytest

from programs import check, tensor

np = pytest.importorskip("numpy")


def _chosen(items, kind, seed, size):
    return np.random.default_rng(seed).choice(np.array(items), size).astype(kind)


FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, np.nan, np.inf, -np.inf, 1e4, -1e-4]
OF_FLOATS = {
    "fmax": lambda a, b: (np.fmax(a, b), np.fmax(a, 0.0), np.fmax(-0.0, b), np.fmax(a[0], b)),
    "fmin": lambda a, b: (np.fmin(a, b), np.fmin(a, 0.5), np.fmin(0.0, b), np.fmin(a, b[0])),
    "written": lambda a, b: (np.fmax(a, b, out=a), a),
}


@pytest.mark.parametrize("kind", ("float64", "float32", "float16"))
@pytest.mark.parametrize("size", (1, 3, 16, 37))
@pytest.mark.parametrize("program", OF_FLOATS.values(), ids=OF_FLOATS)
def test_one_of_two(program, size, kind):
    def fn(x, a, b):
        return x + 1, program(a, b)

    fine = np.linspace(1, 2, size).astype(kind)
    others = [
        (tensor(2), _chosen(pool, kind, seed, size), _chosen(pool, kind, seed + 50, size))
        for pool in (FLOATS, FLOATS[:2], FLOATS[:5], FLOATS[2:])
        for seed in range(3)
    ]
    others[4:4] = others[8:8] = [(tensor(2), fine, fine[::-1].copy())]
    with np.errstate(all="ignore"):
        check(fn, tensor(2), fine, fine * 0.5, graphs=1, others=others)


OF_INTEGERS = {
    "the other way": lambda a, b: (a // -1, np.floor_divide(b, -1), np.divmod(a, -1), b[0] // -1, a % -1),
    "divisors": lambda a, b: (np.gcd(a, b), np.gcd(a, 6), np.gcd(12, b), np.gcd(a[0], b)),
    "multiples": lambda a, b: (np.lcm(a, b), np.lcm(a, 6), np.lcm(b, 1)),
    "the greater": lambda a, b: (np.fmax(a, b), np.fmin(a, 3)),
}


@pytest.mark.parametrize("kind", ("int64", "int32", "int16", "int8", "uint8"))
@pytest.mark.parametrize("program", OF_INTEGERS.values(), ids=OF_INTEGERS)
def test_integers(program, kind):
    def fn(x, a, b):
        return x + 1, program(a, b)

    refused = kind == "uint8" and program is OF_INTEGERS["the other way"]  # -1 is no number of it
    graphs = (0, 2) if refused else 1
    bounds = np.iinfo(kind)
    pools = [0, 1, 2, 6, 30, 36, -6 % 100, 97], [0, 4, 7, bounds.max, bounds.min, bounds.max // 3, bounds.min + 1]
    others = [
        (tensor(2), _chosen(pool, kind, seed, 9), _chosen(pool, kind, seed + 50, 9))
        for seed in range(6)
        for pool in pools
    ]
    check(fn, tensor(2), np.arange(1, 10).astype(kind), np.arange(9)[::-1].astype(kind), graphs=graphs, others=others)


@pytest.mark.parametrize("kind", ("int64", "int32", "int16", "int8", "uint8"))
def test_order_of_integers(kind):
    def fn(x, a):
        return x + 1, a.argsort(), np.argsort(a, axis=None), np.argsort(a, axis=0, kind="stable")

    chosen = np.random.default_rng(1)
    apart = [chosen.permutation(60).reshape(4, 15).astype(kind) for _ in range(3)]
    alike = [chosen.integers(0, 9, (4, 15)).astype(kind) for _ in range(4)]
    check(fn, tensor(2), apart[0], graphs=1, others=[(tensor(2), each) for each in (*alike, *apart)], all_graphs=1)


CONVOLVED = {
    mode: lambda a, b, mode=mode: (np.convolve(a, b, mode), np.convolve(b, a, mode), np.correlate(a, b[::-1], mode))
    for mode in ("full", "same", "valid")
}


@pytest.mark.parametrize("kind", ("float64", "float32", "int64", "int32", "uint8"))
@pytest.mark.parametrize("program", CONVOLVED.values(), ids=CONVOLVED)
def test_convolved(program, kind):
    def fn(x, a, b):
        return x + 1, program(a, b)

    pools = FLOATS[:5], FLOATS[:2], FLOATS
    others = []
    if kind in ("float64", "float32"):
        others = [
            (tensor(2), _chosen(pool, kind, seed, 9), _chosen(pool, kind, seed + 50, 3))
            for pool in pools
            for seed in range(3)
        ]
    with np.errstate(all="ignore"):
        check(fn, tensor(2), np.arange(9).astype(kind), np.arange(1, 4).astype(kind), others=others, exact=False)


def test_numbers_that_another_call_did_not_have():
    def small(x, a):
        return x + 1, np.full_like(a, 3)

    def large(x, a):
        return x + 1, np.full_like(a, np.uint8(200))

    a = np.arange(5).astype("int8")
    check(small, tensor(2), a, graphs=1)
    check(large, tensor(2), a, graphs=None)
