"""Objects that are called, iterated, indexed, tested for truth and mutated; subclasses of builtin types."""

from __future__ import annotations

import functools
import operator
import typing

from collector import Programs
from outcomes import outcome, outcomes
from programs import checked, recompiling, tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


class Callable_:
    def __init__(self, by):
        self.by = by
        self.calls = 0

    def __call__(self, x, *rest, **named):
        self.calls += 1
        return x * self.by + len(rest) + len(named)


@program()
def callable_objects(x, n):
    f = Callable_(2)
    y = f(x, 1, a=2)
    CUT
    z = functools.partial(f, x)(3)
    return y, z, f.calls, callable(f), list(map(f, [1, 2]))


class Indexed:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


@program()
def index_in_places(x, n):
    i = Indexed(2)
    items = [1, 2, 3, 4]
    items[i] = "set"
    del items[i]
    return x + 1, items, [0] * i, operator.index(i), "abc"[i], items.pop(Indexed(0)), items[i:]


class NoIter:
    __iter__ = None


class NoItems:
    def __len__(self):
        return 2


@program(breaks=1)
def iteration_is_refused(x, n):
    return x + 1, [outcome(iter, value) for value in (NoIter(), NoItems(), n, None)]


class Missing(dict):
    def __missing__(self, key):
        value = self[key] = key * 2
        return value


@program()
def dict_with_missing(x, n):
    table = Missing(a=1)
    CUT
    return x + table["a"], table["b"], list(table), table.get("c"), "c" in table


class Loud(list):
    def append(self, item):
        super().append(item)
        super().append("loud")

    def __getitem__(self, at):
        return ("item", super().__getitem__(at))


@program()
def list_with_methods_of_its_own(x, n):
    items = Loud([x])
    items.append(n)
    CUT
    return x + len(items), items[1], list(items), items


class Money(int):
    """A number with a unit."""

    def __new__(cls, value, unit="euro"):
        self = super().__new__(cls, value)
        self.unit = unit
        return self

    def __add__(self, other):
        return Money(int(self) + int(other), self.unit)

    def doubled(self):
        return self * 2


@program()
def int_subclass(x, n):
    m = Money(n)
    total = m + Money(2, "dollar")
    CUT
    return x * int(total), total.unit, m.doubled(), m == n, m > 1, hash(m) == hash(n), type(m + 1).__name__, -m


class Text(str):
    __slots__ = ()

    def shout(self):
        return self.upper() + "!"


@program()
def str_subclass(x, n):
    t = Text("ab")
    CUT
    return x + len(t), t.shout(), t + "c", t == "ab", {t: 1}["ab"], f"{t}", t[0], list(t), "a" in t, t.join(["x", "y"])


@program(tensor(3), Money(3), others=[(tensor(3), Money(4)), (tensor(3), Money(3, "dollar"))])
def int_subclass_argument(x, m):
    if m.unit == "euro":
        return x + int(m), m.doubled()
    return x - int(m), m + 1


@program(tensor(3), Text("a"), others=[(tensor(3), Text("bb"))])
def str_subclass_argument(x, t):
    return x * len(t), t.shout(), t


class Pair(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    @property
    def swapped(self):
        return Pair(self[1], self[0])


@program()
def tuple_subclass(x, n):
    pair = Pair(x, n)
    a, b = pair
    CUT
    return a * b, pair.swapped, pair == (x, n) if False else len(pair), hash(Pair(1, 2)) == hash((1, 2))


class Coordinates(typing.NamedTuple):
    a: typing.Any
    b: int = 5


@program()
def named_tuple_unpacking_and_matching(x, n):
    a, b = Coordinates(x, n)
    match Coordinates(1, 2):
        case Coordinates(a=1, b=second):
            found = second
    return a * b, found, sorted([Coordinates(2, 1), Coordinates(1, 9)])


class Text2:
    def __repr__(self):
        return "repr"

    def __str__(self):
        return "str"


@program()
def text_of_objects(x, n):
    t = Text2()
    CUT
    return x + 1, str(t), repr(t), f"{t} {t!r} {t!s:>5}", [t].__repr__(), "%s %r" % (t, t), str([t]), str({"a": t})


class Bool:
    def __init__(self, value):
        self.value = value

    def __bool__(self):
        return self.value


class LenOnly:
    def __len__(self):
        return 0


@program()
def truth_by_bool_and_len(x, n):
    return x + 1, bool(Bool(False)), not LenOnly(), Bool(True) and 5, LenOnly() or 6, all([Bool(True), Bool(False)])


class IndexText:
    def __index__(self):
        return "1"


class LenNegative:
    def __len__(self):
        return -1


@program()
def wrong_results_of_special_methods(x, n):
    return x + 1, outcomes(lambda: len(LenNegative()), lambda: bool(Bool(5)), lambda: [1][IndexText()])


test_program = program.test()


class Interval(typing.NamedTuple):
    begin: int
    end: int

    def __bool__(self):
        return self.begin < self.end


@checked(tensor(2), Interval(2, 1), others=[(tensor(2), Interval(1, 2))], graphs=None, breaks=None)
@recompiling
def test_truth_of_a_named_tuple_by_its_own_method(x, interval):
    return x + (1 if interval else 2)
