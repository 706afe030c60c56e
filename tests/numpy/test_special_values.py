"""numpy's functions of special values: infinities, NaN, the largest and smallest numbers, equal ones."""

from __future__ import annotations

import pytest

from arrays import check_arrays
from programs import check, checked, tensor

np = pytest.importorskip("numpy")

FLOATS = [0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, -7.0, 1e300, -1e-300, np.nan, np.inf, -np.inf, 3.0, -0.0]


def floats(dtype="float64"):
    one = np.repeat(np.array(FLOATS), len(FLOATS))
    with np.errstate(all="ignore"):
        return one.astype(dtype), np.tile(np.array(FLOATS), len(FLOATS)).astype(dtype)


def _fine(a):
    """Returns numbers whose quotients are in range. For others torch's remainder is NaN."""
    return np.where((abs(a) > 0.1) & (abs(a) < 10), a, 1.5)


OF_TWO = {
    "maximum": (lambda a, b: (np.maximum(a, b), np.minimum(a, b), np.maximum(a, 0.0), np.minimum(-0.0, b)), 1),
    "remainder": (lambda a, b: (_fine(a) % _fine(b), np.fmod(_fine(a), 2.5), _fine(b) // 0.3), 1),
    "divmod": (lambda a, b: np.divmod(_fine(a), 0.3), None),
    "quotients": (lambda a, b: (a // b, np.floor_divide(b, 0.3)), 1),
    "signs": (lambda a, b: (np.copysign(a, b + 1), np.signbit(a + 1), np.negative(a), np.abs(b)), 1),
    "roots": (lambda a, b: (abs(a) ** 0.5, np.sqrt(a), b**2, a**2.0), 1),
    "what torch has another version of": (lambda a, b: (np.fix(b), np.cbrt(b), np.sign(a), np.heaviside(a, b)), None),
    "rounded": (lambda a, b: (np.trunc(a), np.rint(b), np.floor(a), np.round(b), np.ceil(a)), 1),
    "angles": (lambda a, b: (np.angle(a + 1), np.arctan2(a + 1, b + 1)), 1),
    "clipped": (lambda a, b: (np.clip(a, -0.0, 2.0), a.clip(-1, 1), np.where(a > b, a, b), np.nan_to_num(a)), 1),
    "comparisons": (lambda a, b: (a < b, a == b, np.isnan(a), np.isfinite(b), np.isclose(a, b)), 1),
    "fmax": (lambda a, b: (np.fmax(a, b), np.fmin(b, a), np.fmax(a, 0.0)), 1),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("program, graphs", OF_TWO.values(), ids=OF_TWO)
def test_floats(program, graphs, dtype):
    check_arrays(lambda x, a, b: (x + 1, program(a, b)), tensor(2), *floats(dtype), graphs=graphs)


def test_complex_numbers():
    def fn(x, a, b):
        found = a + b, a * b, a**2, a * 2.5, np.square(a), a @ b, np.multiply(b, 1j), a / 2.0, np.exp(a), -a, a - b
        return x + 1, found, 1.5 - b

    parts = np.array([0.0, 1.0, -2.5])
    a = np.empty((3, 3), complex)
    a.real, a.imag = parts[:, None], parts
    check_arrays(fn, tensor(2), a, a.T.copy(), graphs=(1, 2))
    check_arrays(fn, tensor(2), a.astype("complex64"), a.copy(), graphs=(1, 2))


INTEGERS = [0, 1, 3, 7, 127, -1, -2, -128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
OF_INTEGERS = {
    "common divisors": lambda a, b: (np.gcd(a, b), np.lcm(a // 2**40, b // 2**40), np.gcd(a, 6)),
    "rounded to tens": lambda a, b: (np.round(a, -1), b.round(-2), np.round(a, 1)),
    "quotients": lambda a, b: (a // -1, a % -1, b // 7, b % -7, np.divmod(a, 3)),
    "overflow": lambda a, b: (a + b, a * b, -a, abs(a), a - b, a * 3, np.abs(b), a**2),
    "bits": lambda a, b: (a & b, a | 1, a ^ b, ~a, a >> 2, a << 1),
    "of other types": lambda a, b: (a / b.astype("float64"), a.astype("int8"), a.astype("uint8") == -1, np.sign(a)),
}


@pytest.mark.parametrize("program", OF_INTEGERS.values(), ids=OF_INTEGERS)
def test_integers(program):
    one = np.repeat(np.array(INTEGERS), len(INTEGERS))
    other = np.tile(np.array(INTEGERS), len(INTEGERS))
    check_arrays(lambda x, a, b: (x + 1, program(a, b)), tensor(2), one, other, graphs=None)


@checked(tensor(2), np.array([0, 1, 253, 254, 255], "uint8"), breaks=5)
def test_unsigned_beside_negative_numbers(x, a):
    return x + 1, a == -1, a != -3, a < -1, a > 300, -2 <= a


def test_the_order_of_equal_items():
    def fn(x, a):
        return x + 1, a.argsort(kind="stable"), np.argsort(a, kind="stable")

    a = np.array([3, 1, 2, 1, 0, 3, 1, 0] * 9)
    nans = np.where(a == 3, np.nan, a)
    check(fn, tensor(2), a, others=[(tensor(2), nans), (tensor(2), nans.astype("float32"))])
    check(lambda x, a: (x + 1, np.argsort(a), a.argsort()), tensor(2), a, graphs=None, others=[(tensor(2), nans)])


def test_truth_values_are_other_ones():
    def fn(x, a):
        some, every = np.any(a > 5), np.all(a > 0)
        return x + 1, some >= -1, every <= 2, some == every, some | True, np.logical_not(every), every & (a[0] == 1)

    for items in ([1, 2], [6, -1], [7, 8], [0, 0]):
        check(fn, tensor(2), np.array(items), graphs=(1, 2), breaks=(0, 1))


@pytest.mark.parametrize("kind", ["int8", "uint8", "float32", "int64"])
def test_scalars_beside_arrays(kind):
    def fn(x, a, b):
        one = b[0]
        return x + 1, a == one, a < one, np.maximum(a, one), a + one, one - a, np.where(a > one, a, one), one % 7

    items = np.array([1, 44, 100, 127], kind)
    for other in (np.array([300, 1]), np.array([-1, 0]), np.array([1.5, 2.0]), np.array([44, 1], "int8")):
        check_arrays(fn, tensor(2), items, other, graphs=None)


PICKING = {
    "max": lambda a: (a.max(), np.max(a, axis=0), np.amax(a, -1, keepdims=True)),
    "min": lambda a: (a.min(), np.min(a, axis=0), np.amin(a, 1)),
    "between": lambda a: (np.ptp(a), np.ptp(a, axis=1)),
    "sorted": lambda a: (np.sort(a), np.sort(a, axis=0), np.sort(a, axis=None)),
    "sorted in place": lambda a: a.sort(),
    "halfway": lambda a: np.median(a, axis=1),
    "percentiles": lambda a: np.percentile(a, [25.0, 50.0], axis=0),
    "sums": lambda a: (a.cumsum(), np.cumsum(a, axis=1), np.cumsum(a, 0)),
    "compared": lambda a: (a - a.max(), a * a.min(axis=0)),
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
def test_picked_items(program, kind):
    def fn(x, a):
        return x + 1, program(a), a

    check_arrays(fn, tensor(2), np.ones((4, 37), kind), graphs=None, others=[(tensor(2), each) for each in _data(kind)])
