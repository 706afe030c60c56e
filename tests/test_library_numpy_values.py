"""numpy's functions of items that are out of the ordinary: zeros of either sign, infinities, NaN, the greatest numbers
and the least, equal ones."""

from __future__ import annotations

import operator

import pytest

from programs import check, tensor

np = pytest.importorskip("numpy")

FLOATS = [0.0, -0.0, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, -7.0, 1e300, -1e-300, np.nan, np.inf, -np.inf, 3.0, -0.0]


def floats(dtype="float64"):
    one = np.repeat(np.array(FLOATS), len(FLOATS))
    with np.errstate(all="ignore"):
        return one.astype(dtype), np.tile(np.array(FLOATS), len(FLOATS)).astype(dtype)


OF_TWO = {
    "maximum": (lambda a, b: (np.maximum(a, b), np.minimum(a, b), np.maximum(a, 0.0), np.minimum(-0.0, b)), 1),
    "remainder": (lambda a, b: (a % b, np.mod(a, b), np.remainder(b, 2.5), b % -0.5, 7.0 % a, np.fmod(a, b)), 1),
    "divmod": (lambda a, b: np.divmod(a, b), 1),
    "quotients": (lambda a, b: (a // b, np.floor_divide(b, 0.3)), 1),
    "signs": (lambda a, b: (np.sign(a), np.copysign(a, b), np.signbit(a), np.negative(a), np.abs(b)), 1),
    "roots": (lambda a, b: (a**0.5, np.cbrt(b), np.sqrt(a), b**2, a**-1.0), 1),
    "fix": (lambda a, b: a + np.fix(b), (1, 2)),  # numpy 2.5 warns of it
    "rounded": (lambda a, b: (np.trunc(a), np.rint(b), np.floor(a), np.round(b), np.ceil(a)), 1),
    "angles": (lambda a, b: (np.angle(a), np.arctan2(a, b)), 1),
    "clipped": (lambda a, b: (np.clip(a, -0.0, 2.0), a.clip(-1, 1), np.where(a > b, a, b), np.nan_to_num(a)), 1),
    "comparisons": (lambda a, b: (a < b, a == b, np.isnan(a), np.isfinite(b), np.isclose(a, b)), 1),
    "fmax": (lambda a, b: a + np.fmax(a, b), (1, 2)),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", OF_TWO)
def test_floats(name, dtype):
    program, graphs = OF_TWO[name]

    def fn(x, a, b):
        return x + 1, program(a, b)

    with np.errstate(all="ignore"):
        check(fn, tensor(2), *floats(dtype), graphs=graphs, breaks=(0, 1), exact=name != "angles")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 9, 33])
def test_the_sign_of_the_greater_zero(size):
    def fn(x, a, b):
        return x + 1, np.maximum(a, b), np.minimum(b, a), np.maximum(a, 0), np.maximum(0.0, b)

    for dtype in ("float64", "float32", "float16"):
        zeros = np.zeros(size, dtype)
        check(fn, tensor(2), zeros, -zeros)
        check(fn, tensor(2), -zeros, zeros)


def test_complex_sums_of_infinities():
    def fn(x, a, b):
        return x + 1, a + b, a - b, -a, a + 2, 1.5 - b, np.add(a, 1j), np.subtract(b.real, a), a + True

    parts = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan])
    a = np.empty((6, 6), complex)
    a.real, a.imag = parts[:, None], parts
    with np.errstate(all="ignore"):
        check(fn, tensor(2), a, a.T.copy()[::1])
        check(fn, tensor(2), a.astype("complex64"), a[::1].copy())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 33])
def test_complex_products_of_infinities(size):
    def fn(x, a, b):
        found = a * b, a**2, a * 2.5, np.square(a), a @ b, np.multiply(b, 1j), a / 2.0, 1 / b, np.exp(a)
        return x + 1, found

    parts = np.array([0.0, -0.0, 1.0, -2.5, np.nan, np.inf, -np.inf, 1e300, -1e-300])
    items = np.empty((9, 9), complex)
    items.real, items.imag = parts[:, None], parts
    chosen = np.random.default_rng(size)
    fine = np.full(size, 1 + 2j), np.full(size, 2 - 1j)
    others = [(tensor(2), *(chosen.choice(items.ravel(), size) for _ in range(2))) for _ in range(20)]
    others[5:5] = others[11:11] = others[18:18] = [(tensor(2), *fine)]  # too many in a row would break the graph
    with np.errstate(all="ignore"):
        check(fn, tensor(2), *fine, others=others, all_graphs=1, exact=False)


INTEGERS = [0, 1, 3, 7, 127, -1, -2, -128, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
OF_INTEGERS = {
    "common divisors": lambda a, b: (np.gcd(a, b), np.lcm(a // 2**40, b // 2**40), np.gcd(a, 6)),
    "rounded to tens": lambda a, b: (np.round(a, -1), b.round(-2), np.round(a, 1)),
    "quotients": lambda a, b: (a // -1, a % -1, b // 7, b % -7, np.divmod(a, 3)),
    "overflow": lambda a, b: (a + b, a * b, -a, abs(a), a - b, a * 3, np.abs(b), a**2),
    "bits": lambda a, b: (a & b, a | 1, a ^ b, ~a, a >> 2, a << 1),
    "of other types": lambda a, b: (a / b.astype("float64"), a.astype("int8"), a.astype("uint8") == -1, np.sign(a)),
}


@pytest.mark.parametrize("name", OF_INTEGERS)
def test_integers(name):
    program = OF_INTEGERS[name]

    def fn(x, a, b):
        return x + 1, program(a, b)

    one = np.repeat(np.array(INTEGERS), len(INTEGERS))
    other = np.tile(np.array(INTEGERS), len(INTEGERS))
    with np.errstate(all="ignore"):
        check(fn, tensor(2), one, other, graphs=(1, 2), breaks=(0, 3))


def test_unsigned_beside_negative_numbers():
    def fn(x, a):
        return x + 1, a == -1, a != -3, a < -1, a > 300, -2 <= a

    check(fn, tensor(2), np.array([0, 1, 253, 254, 255], "uint8"), breaks=5)


def test_the_order_of_equal_items():
    def fn(x, a):
        return x + 1, a.argsort(kind="stable"), np.argsort(a, kind="stable")

    def unstable(x, a):
        return x + 1, np.argsort(a), a.argsort()

    a = np.array([3, 1, 2, 1, 0, 3, 1, 0] * 9)
    check(fn, tensor(2), a)
    check(unstable, tensor(2), a)
    one = np.random.default_rng(0).permutation(72).astype("float32")
    rows = one.reshape(8, 9), a.reshape(8, 9) * 1.0, one.reshape(12, 6).T, (a * np.nan).reshape(8, 9)
    nans = np.where(one == 5, np.nan, one), np.where(one > 69, np.nan, one), np.where(abs(one - 3) < 1, -0.0, one)
    others = [
        (tensor(2), each) for each in (one, a.astype("float32"), -one, *(each.astype("float32") for each in nans))
    ]
    check(unstable, tensor(2), one, others=others, all_graphs=1)
    for each in rows:
        check(lambda x, a: (x + 1, a.argsort(0), np.argsort(a[::-1])[:, ::-1][:, :3]), tensor(2), each)


def test_convolutions_of_infinities():
    def fn(x, a):
        return x + 1, np.convolve(a, [1.0, -1.0])

    check(fn, tensor(2), np.array([1.0, np.inf, 2.0, np.nan, 3.0, 4.0]))


@pytest.mark.parametrize("function", [operator.mod, operator.floordiv])
def test_quotients_out_of_range(function):
    def fn(x, a, b):
        return x + 1, function(a, b), function(a, 0.25), function(b, -1e-300)

    a = np.array([1e308, -1e308, 5.0, 1e308, 2.0**1000])
    with np.errstate(all="ignore"):
        check(fn, tensor(2), a, np.array([1e-308, 0.3, 1e-300, -0.3, 2.0**-1000]))


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
        with np.errstate(all="ignore"):
            check(fn, tensor(2), items, other, graphs=(1, 3), breaks=None)
