"""The modules operator and math: every function of them, on numbers, containers, tensors and objects."""

from __future__ import annotations

import math
import operator

from collector import Programs
from outcomes import outcomes
from programs import recompiling, tensor

programs = Programs()


def functions(module, names):
    return [getattr(module, name) for name in names.split()]


OF_TWO = functions(operator, "add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift lt le eq ne gt ge")
OF_ONE = functions(operator, "neg pos abs invert inv index truth not_")
IN_PLACE = dict(iadd=1, isub=1, imul=2, ifloordiv=2, ipow=2, iand=4, ior=2, ixor=1, ilshift=1, irshift=1, imod=3)
OF_A_NUMBER = "ceil floor trunc fabs exp sin atan erf degrees frexp modf isnan isinf isfinite cbrt expm1 tanh exp2"
OF_A_NUMBER = functions(math, OF_A_NUMBER)


@programs(tensor(2), 7, 2)
def operators_on_numbers(x, a, b):
    both, one = [function(a, b) for function in OF_TWO], [function(a) for function in OF_ONE]
    return x + both[0], both, one, operator.abs(-a), operator.is_(a, a), operator.is_not(a, None)


@programs(tensor(2), tensor(2, seed=1))
def operators_on_tensors(x, y):
    o = operator
    return (
        o.add(x, y),
        o.matmul(x, y),
        o.pow(x, 2),
        o.neg(x),
        o.lt(x, y),
        o.getitem(x, 0),
        o.truediv(1, x),
        o.abs(x),
        o.eq(x, x),
        o.index(x.shape[0]),
    )


@programs(tensor(2), [1, 2, 1], breaks=5)  # `concat` and the like
def operators_on_containers(x, items):
    o = operator
    a = (
        o.concat(items, [3]),
        o.contains(items, 2),
        o.countOf(items, 1),
        o.indexOf(items, 2),
        o.getitem(items, slice(0, 2)),
        o.length_hint(items),
    )
    o.setitem(items, 0, 9)
    o.delitem(items, 1)
    b = o.iadd(items, [4]), o.iconcat(items, [5]) is items
    return x + a[2], a, b, items


@programs(tensor(2), 5)
def operators_in_place(x, n):
    o = operator
    y = x + 0
    z = o.iadd(y, 1)
    a = [getattr(o, name)(n, by) for name, by in IN_PLACE.items()]
    return y, z is y, a, o.itruediv(n, 2)


class Item:
    def __init__(self, n, inner=None):
        self.n = n
        self.inner = inner

    def scaled(self, x, by=1, *, plus=0):
        return x * self.n * by + plus

    def __getitem__(self, key):
        return (key, self.n)


@programs(tensor(2), Item(3, Item(4)))
@recompiling
def getters_and_calls(x, item):
    names = operator.attrgetter("n"), operator.attrgetter("inner.n", "n")
    keys = (
        operator.itemgetter(0),
        operator.itemgetter(1, -1),
        operator.itemgetter(slice(1, 3)),
        operator.itemgetter("k"),
    )
    a = (
        names[0](item),
        names[1](item),
        keys[0]([5]),
        keys[1]([1, 2, 3]),
        keys[2]("abcd"),
        keys[3]({"k": x}) is x,
        keys[3](item),
    )
    return a, operator.call(item.scaled, x, by=3)


second, name, upper = operator.itemgetter(1), operator.attrgetter("n"), operator.methodcaller("upper")
scaled = operator.methodcaller("scaled", 2, plus=1)


@programs(tensor(2))
def getters_from_outside(x):
    return x * second([1, 2]) + name(Item(5))


@programs(tensor(2))
def created_method_callers(x):
    call = operator.methodcaller("scaled", x, 2, plus=1)
    lower = operator.methodcaller("lower")
    return call(Item(3)), sorted(["b", "A"], key=lower), operator.methodcaller("sum", dim=0)(x), lower, call


@programs(tensor(2), graphs=None)
@recompiling
def method_callers(x):
    call = operator.methodcaller("scaled", x, 2, plus=1)
    return call(Item(3)), upper("ab"), scaled(Item(3))


@programs(tensor(2), breaks=1)  # at `indexOf`
def getters_that_fail(x):
    found = outcomes(
        lambda: operator.attrgetter("z")(Item(1)),
        lambda: operator.itemgetter(5)([1]),
        lambda: operator.indexOf([1], 2),
        lambda: operator.index(1.5),
    )
    return x + len(found), found


@programs(tensor(2), 2.5, others=[(tensor(2), -0.5)])
def mathematics_of_one_number(x, v):
    found = [function(v) for function in OF_A_NUMBER]
    return x * found[0], found, math.gamma(v + 1), math.ulp(1.0)


@programs(tensor(2))
def mathematics_of_several_numbers(x):
    a = (
        math.gcd(12, 18),
        math.lcm(4, 6),
        math.comb(5, 2),
        math.perm(5, 2),
        math.factorial(5),
        math.isqrt(17),
        math.prod([1, 2, 3]),
        math.fsum([0.1] * 10),
    )
    b = (
        math.hypot(3, 4),
        math.dist((0, 0), (3, 4)),
        math.atan2(1, 2),
        math.fmod(7, 3),
        math.copysign(1, -0.0),
        math.ldexp(1.5, 3),
        math.log(8, 2),
        math.pow(2, 3),
        math.remainder(7, 4),
        math.nextafter(1, 2),
        math.isclose(1, 1 + 1e-12, rel_tol=1e-9),
    )
    return x + a[0], a, b, math.pi, math.e, math.tau, math.inf, math.nan


class Angle:
    def __init__(self, v):
        self.v = v

    def __float__(self):
        return float(self.v)

    def __ceil__(self):
        return "ceil"

    def __index__(self):
        return int(self.v)


@programs(tensor(2), 3, breaks=(1, 6))
def mathematics_of_objects(x, v):
    a = Angle(v)
    return (
        x + math.sqrt(a),
        math.ceil(a),
        math.floor(a),
        math.factorial(a),
        math.gcd(a, 6),
        math.pow(a, 2),
        math.trunc(2.5),
        operator.index(a),
        [1, 2, 3, 4][a],
    )


@programs(tensor(2, 3))
def mathematics_of_sizes(x):
    d = x.size(-1)
    return (
        x / math.sqrt(d),
        math.prod(x.shape),
        math.ceil(x.shape[0] / 4),
        math.log(x.numel()),
        int(math.log2(d)),
        math.prod([x, 2, x]),
    )


test_operator = programs.test()
