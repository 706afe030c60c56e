"""What numpy warns of on the data, and raises where `numpy.errstate` says so: a graph gives the numbers, and the graph
breaks where errors are to be reported otherwise than by a warning."""

from __future__ import annotations

import operator

import pytest

import dynamo_lite as dl
from arrays import check_arrays
from programs import approximate, check, checked, recompiling, tensor

np = pytest.importorskip("numpy")

FINE = np.array([1.0, 2.0, 3.0, 4.0])
ZERO = np.array([0.0, 2.0, -3.0, 4.0])
LARGE = np.array([1e300, -1e300, 1e200, 800.0])
NAN = np.array([np.nan, 1.0, 2.0, 3.0])
INFINITE = np.array([np.inf, -np.inf, 1.0, 3.0])

PROGRAMS = {
    "quotients": lambda a: (1 / a, a / a, np.divide(a, 2.0)),
    "remainders": lambda a: (a % 2.0, 3.0 % a, a // 0.5, np.divmod(a, 2.0)),
    "logarithms": lambda a: (np.log(a), np.log1p(a) + np.sqrt(a)),
    "exponentials": lambda a: np.exp(a) * 2 + np.exp2(a),
    "products": lambda a: (a * a, a * 2 + 1, a - a, a**2, a**0.5, a.dot(a), a @ a),
    "powers": lambda a: (0.0**a, np.power(0.0, a), np.float_power(a, -1)),
    "angles": lambda a: (np.sin(a), np.arcsin(a / 1e3), np.arctan2(a, a)),
    "sums": lambda a: (a.sum(), np.mean(a), a.std(), np.prod(a), np.cumsum(a), a.var(ddof=1)),
    "casts": lambda a: (a.astype("int32"), a.astype("float32"), a.astype("uint8")),
    "scalars": lambda a: (a[0] / a[1], a[0] * 1e300, a[1] - 1, a.sum() / a[0]),
    "quiet ones": lambda a: (np.where(a > 0, a, 0.0), np.maximum(a, 0), abs(a), np.isnan(a), a < 1, a.max(), -a),
    "items that are left out": lambda a: np.where(a > 0, np.log(np.where(a > 0, a, 1.0)), 0.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_any_data(name):
    program = PROGRAMS[name]

    others = [(tensor(2), data) for data in (FINE, ZERO, LARGE, FINE)]
    if name != "casts":  # of NaN and infinities they depend on the processor's instructions
        others += [(tensor(2), data) for data in (NAN, INFINITE)]
    check_arrays(lambda x, a: (x + 1, program(a)), tensor(2), FINE, others=others, all_graphs=1)


WRITES = {
    "slice": lambda a, b, at: operator.setitem(b, slice(None), a),
    "operator": lambda a, b, at: operator.iadd(b, a),
    "item": lambda a, b, at: operator.setitem(b, 0, a[0]),
    "copy": lambda a, b, at: np.copyto(b, a),
    "indices": lambda a, b, at: operator.setitem(b, at, a),
    "mask": lambda a, b, at: operator.setitem(b, b < 5, a[0]),
    "backwards": lambda a, b, at: operator.setitem(b[::-1], slice(1, None), a[1:]),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_overflow_in_a_write_obeys_errstate(write):
    def fn(x, a, b, at):
        write(a, b, at)
        return x + 1, b * 1

    small, at = np.zeros(4, "float32"), np.array([0, 2, 1, 3])
    others = [(tensor(2), data, small, at) for data in (LARGE, LARGE[::-1].copy(), FINE, NAN, INFINITE)]
    check_arrays(recompiling(fn), tensor(2), FINE, small, at, others=others, graphs=None)


@pytest.mark.parametrize("settings", [{"all": "raise"}, {"divide": "raise"}, {"all": "ignore"}])
@pytest.mark.parametrize("data", [FINE, ZERO, NAN], ids=["fine", "zero", "nan"])
def test_errstate_of_the_caller_is_obeyed(settings, data):
    def fn(x, a):
        return x + 1, np.log(a), 1 / a

    with np.errstate(**settings):
        check(approximate(fn), tensor(2), data, graphs=None)


def test_reported_errors_break_by_name():
    def fn(x, a):
        y = x + 1
        return y, a * 2

    with np.errstate(divide="raise"):
        check(fn, tensor(2), FINE, graphs=1, breaks=1)
    (reason,) = dl.counters.break_reasons
    assert "numpy.errstate" in reason


@checked(tensor(2), ZERO, others=[(tensor(2), FINE)], graphs=None)
@checked(tensor(2), FINE, others=[(tensor(2), ZERO), (tensor(2), FINE)], graphs=None)
@recompiling
@approximate
def test_errstate_set_by_the_program_is_obeyed(x, a):
    with np.errstate(all="raise"):
        try:
            found = 1 / a
        except FloatingPointError as error:
            found = str(error)
    with np.errstate(all="ignore"):
        other = np.log(a) + x.sum().item()
        return x + 1, found, other, 1 / a
