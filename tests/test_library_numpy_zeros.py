"""Zeros of either sign, of which numpy takes one, and where sums of them begin."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, tensor

np = pytest.importorskip("numpy")

PICKING = {
    "max": lambda a: (a.max(), np.max(a, axis=0), np.amax(a, -1, keepdims=True)),
    "min": lambda a: (a.min(), np.min(a, axis=0), np.amin(a, 1)),
    "between": lambda a: (np.ptp(a), np.ptp(a, axis=1)),
    "sorted": lambda a: (np.sort(a), np.sort(a, axis=0), np.sort(a, axis=None)),
    "sorted in place": lambda a: a.sort(),
    "halfway": lambda a: np.median(a, axis=1),
    "percentiles": lambda a: np.percentile(a, [25.0, 50.0], axis=0),
    "sums": lambda a: (a.cumsum(), np.cumsum(a, axis=1), np.cumsum(a, 0)),
    "compared": lambda a: (a - a.max(), a * a.min(axis=0), np.copysign(3.0, a.max(1))),
}


def _data(kind):
    """Items that are equal but for their signs, at the places where vectors of any length look for them."""
    generator = np.random.default_rng(3)
    pools = [[0.0, -0.0], [0.0, -0.0, -1.0], [0.0, -0.0, 1.0], [-0.0], [0.0, -0.0, 1.0, -1.0, 2.5], [1.0, 2.0], [0.0]]
    for pool in pools:
        for _ in range(3):
            yield generator.choice(np.array(pool), size=(4, 37)).astype(kind)


@pytest.mark.parametrize("kind", ("float64", "float32", "float16"))
@pytest.mark.parametrize("program", PICKING.values(), ids=PICKING)
def test_sign_of_a_zero_is_numpys(program, kind):
    def fn(x, a):
        return x + 1, program(a), a

    captured = kind == "float64" or program not in (PICKING["percentiles"], PICKING["halfway"])
    if torch.__version__ < "2.12" and program is PICKING["percentiles"]:  # there it reads a value
        captured = False
    graphs = 1 if captured else None
    check(fn, tensor(2), np.ones((4, 37), kind), graphs=graphs, others=[(tensor(2), each) for each in _data(kind)])


PRODUCTS = {
    "matmul": lambda a, b: a[:, :1] @ b[:1],
    "dot": lambda a, b: np.dot(a[:, :1], b[:1]),
    "inner": lambda a, b: np.inner(a[:, :1], b[:, :1]),
    "tensordot": lambda a, b: np.tensordot(a, b, 0),
    "einsum": lambda a, b: np.einsum("i,j->ij", a[0], b[0]),
    "of several": lambda a, b: (a @ b.T, np.outer(a[0], b[0]), np.inner(a, b)),
}


@pytest.mark.parametrize("kind", ("float64", "float32", "float16"))
@pytest.mark.parametrize("program", PRODUCTS.values(), ids=PRODUCTS)
def test_sign_of_products_that_are_added_to_nothing(program, kind):
    def fn(x, a, b):
        return x + 1, program(a, b)

    zero, one = np.full((3, 5), -0.0, kind), np.ones((3, 5), kind)
    mixed = np.array([[0.0, -0.0, 1.0, -1.0, 2.0]] * 3, kind)
    others = [(tensor(2), *pair) for pair in ((one, zero), (zero, one), (mixed, one), (zero, mixed))]
    graphs = None if kind == "float16" and program is PRODUCTS["einsum"] else 1
    check(fn, tensor(2), zero, one, graphs=graphs, others=others)


def test_runs_again_only_where_a_zero_may_be_another():
    def fn(a):
        return np.maximum(a.max(axis=1), a.min())

    compiled = dl.compile(fn, backend="eager")
    with_zeros = np.array([[0.0, 3.0], [-0.0, 2.0]])
    for data in (np.ones((2, 2)), with_zeros - 1, abs(with_zeros)):
        found, expected = compiled(data), fn(data)
        assert found.tobytes() == expected.tobytes()


def test_bins_of_a_histogram_begin_where_numpys_do():
    def fn(x, a):
        return x + 1, np.histogram(a), np.histogram(a, bins=4, range=(0.0, 1.0))

    given = [np.round(np.random.default_rng(seed).normal(size=50), 1) for seed in range(8)]
    check(fn, tensor(2), given[0], graphs=None, recompiles=True, others=[(tensor(2), each) for each in given[1:]])


@pytest.mark.parametrize("count", (1, 2, 10, 33))
def test_numbers_between_two_are_numpys(count):
    def fn(x, a):
        known = np.linspace(0, 1, count), np.linspace(0.1, -7, count, endpoint=False), np.linspace(2, 2, count)
        steps = np.arange(0.1, 0.1 * count, 0.1), np.arange(3.0, -1.0, -0.3), np.arange(0.7 * count)
        return x + 1, known, steps, np.linspace(a.min(), a.max(), count), np.linspace(0, a[0], count)

    others = [(tensor(2), np.array(data)) for data in ([0.1, 0.7], [-1e300, 1.0], [3.0, 3.0])]
    check(fn, tensor(2), np.array([0.3, 1.1]), graphs=1, others=others)
