"""Builtin functions with keys, defaults, state, errors, iterators and tensors as their arguments."""

from __future__ import annotations

import builtins
import sys

import torch

from collector import Programs
from dynamo_lite.variables.core.registry import find_model
from outcomes import outcome
from programs import tensor

programs = Programs()


class Number:
    """Defines all conversions to numbers."""

    def __init__(self, n):
        self.n = n

    def __index__(self):
        return self.n

    def __int__(self):
        return self.n + 100

    def __float__(self):
        return self.n + 0.5

    def __complex__(self):
        return complex(self.n, 1)

    def __bool__(self):
        return self.n > 0

    def __len__(self):
        return self.n

    def __abs__(self):
        return self.n * 10

    def __round__(self, digits=None):
        return ("rounded", self.n, digits)

    def __divmod__(self, other):
        return ("divmod", other)

    def __rdivmod__(self, other):
        return ("rdivmod", other)

    def __pow__(self, other, modulo=None):
        return ("pow", other, modulo)

    def __hash__(self):
        return 42

    def __eq__(self, other):
        return isinstance(other, Number) and self.n == other.n

    def __repr__(self):
        return f"Number({self.n})"

    def __format__(self, spec):
        return f"<{spec}:{self.n}>"

    def __reversed__(self):
        return iter(range(self.n, 0, -1))

    def __contains__(self, item):
        return item == self.n

    def __bytes__(self):
        return b"%d" % self.n


@programs(tensor(2), 3, others=[(tensor(2), 4)], graphs=(1, 2), breaks=(1, 11))
def conversions_by_special_methods(x, n):
    v = Number(n)
    a = int(v), float(v), complex(v), bool(v), len(v), abs(v), bytes(v)
    b = hex(v), bin(v), oct(v), chr(Number(65)), list(range(v)), [1, 2, 3, 4, 5][v]
    c = round(v), round(v, 2), divmod(v, 2), divmod(2, v), pow(v, 2), pow(v, 2, 3), v**2
    return x + a[0], a, b, c


@programs(tensor(2), breaks=1)  # at `ascii`
def text_by_special_methods(x):
    v = Number(3)
    texts = format(v), format(v, "x"), f"{v:>3}", f"{v!r:>12}", "%s" % v, "{:q}|{k}".format(v, k=1)
    return x + 1, repr(v), str(v), ascii(v), texts


@programs(tensor(2))
def hash_order_and_membership_by_special_methods(x):
    v = Number(3)
    return x + hash(v), list(reversed(v)), 3 in v


class Thing:
    n = 3

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name * 2


@programs(tensor(2), {"a": 1})
def getattr_in_every_form(x, table):
    thing = Thing()
    a = getattr(thing, "n"), getattr(thing, "ab"), getattr(thing, "_c", 7), hasattr(thing, "_d"), hasattr(thing, "d")
    setattr(thing, "n", 4)
    delattr(thing, "n")
    return x + thing.n, a, getattr(table, "get")("a"), getattr(x, "shape")[0], getattr(x, "nothing", None)


@programs(tensor(2), 5)
def isinstance_with_unions_and_tuples(x, n):
    a = (
        isinstance(n, int | str),
        isinstance("a", (int, (str, bytes))),
        isinstance(n, object),
        isinstance(x, torch.Tensor | None),
    )
    b = issubclass(bool, int | float), issubclass(list, (tuple, list)), issubclass(type(x), torch.Tensor)
    return x + 1, a, b


@programs(tensor(2))
def isinstance_of_what_is_no_class(x):
    found = [outcome(isinstance, 1, bad) for bad in (3, "int", [int])]
    return x + len(found), found


@programs(tensor(2))
def type_of_everything(x):
    kinds = [
        type(v)
        for v in (1, 1.0, "a", None, [], (), {}, set(), x, len, lambda: 0, type, ..., range(2), slice(1), iter([]))
    ]
    return x + 1, kinds, type(kinds) is list, type(x).__name__


@programs(tensor(2))
def constructors_of_containers(x):
    a = list("ab"), tuple([1, 2]), set([1, 1]), frozenset("a"), dict(a=1), dict([("b", 2)], c=3), dict({"d": x})
    b = list(), tuple(), dict(), str(), int(), float(), bool(), bytes(), complex(), list({"k": 1}), dict([["e", 5]])
    return a[6]["d"] + 1, a[:6], b


@programs(tensor(2))
def conversions_of_text(x):
    a = int("12"), int(" -3 "), int("ff", 16), int("0b11", 0), int(3.9), int(True), int(b"7"), int("1_000")
    c = bytes([65, 66]), bytes("é", "utf8"), bytes(2)
    b = float("1e3"), float("inf"), float(" 2 "), float(3), complex("1+2j"), bool("False"), str(1.0), str(b"a", "utf8")
    return x + a[0], a, b, c


@programs(tensor(2))
def conversions_that_fail(x):
    wrong = (int, "x"), (float, "y"), (int, None), (chr, -1), (ord, "ab"), (complex, "z"), (bytes, -1)
    found = [outcome(fn, arg) for fn, arg in (*wrong, (int, float("inf")))]
    return x + len(found), found


@programs(tensor(2))
def arithmetic_builtins(x):
    a = (
        abs(-3),
        abs(3 - 4j),
        divmod(7, -2),
        divmod(-7.5, 2),
        pow(2, -1),
        pow(3, -1, 7),
        pow(2, 10, 1000),
        round(2.5),
        round(-1.5),
    )
    b = round(2.675, 2), round(1234, -2), bin(-5), hex(255), oct(8), ascii("é"), chr(8364), ord("€"), round(1.5, None)
    return x + a[0], a, b


@programs(tensor(2), graphs=(1, 3))
def a_bytearray_is_changed(x):
    data = bytearray(b"abc")
    data[0] = 65
    data.extend(b"d")
    return x + len(data), bytes(data), data


@programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
def slices_and_ranges(x, n):
    s = slice(1, n)
    r = range(0, 10, n)
    a = [0, 1, 2, 3][s], s.start, s.stop, s.step, s.indices(2), s == slice(1, 3), "abcd"[s]
    b = list(r), r[1], r[-1], len(r), 6 in r, r.count(1), r[1:], r == range(0, 12, 3), r.start, r.stop, r.step
    c = range(0, 10, 3).index(6), bool(range(0)), hash(range(3)) == hash(range(0, 3))
    return x[slice(0, 1)], x[s], x[slice(None, None, 2)], a, b, c


class Call:
    def __call__(self):
        return 1


@programs(tensor(2))
def callables_are_known(x):
    return x + 1, [callable(each) for each in (Call(), Call, len, 1, x.sin, lambda: 0, [].append)]


@programs(tensor(2), graphs=None)
def eval_exec_and_compile(x):
    n = 4
    code = compile("a + 1", "<text>", "eval")
    return x * eval("n"), eval(code, {"a": 2}), globals()["tensor"] is tensor


@programs(tensor(2), [1, 2])
def id_and_hash(x, items):
    other = items
    table = {id(items): "a"}
    hashes = hash("a") == hash("a"), hash((1, 2)) == hash((1, 2)), hash(1) == hash(1.0)
    return x + 1, id(items) == id(other), table[id(other)], hashes


@programs(tensor(2))
def hash_of_what_has_none(x):
    found = [outcome(hash, make()) for make in (list, dict, set)]
    return x + len(found), found


@programs(tensor(2))
def format_in_every_form(x):
    n, s, f = 42, "ab", 3.14159
    a = format(n, "08b"), format(f, ".2f"), format(s, ">5"), format(n), f"{n:,}", f"{1 < 2}"
    b = (
        "%d %s %r %5.1f %%" % (n, s, s, f),
        "%(k)s" % {"k": 1},
        "{} {1}".replace("1", "").format(1, 2),
        "{a[0]} {b.real}".format(a=[1], b=2),
    )
    return x + 1, a, b, f"{[1, 'a']} {(1,)} { {'k': None} }", f"{x.shape} {x.dtype} {x.dim()}"


@programs(tensor(2))
def formatting_that_fails(x):
    found = [outcome(lambda: text % args) for text, args in (("%d", ("a",)), ("%d %d", (1,)), ("%s", (1, 2)))]
    found += [outcome(format, 1, "q"), outcome(lambda: "{}{}".format(1))]
    return x + len(found), found


@programs(tensor(1), graphs=None)
def builtins_of_tensors_with_data(x):
    y = x.abs() + 1
    return (
        int(y.sum()),
        float(y.sum()),
        bool(y.sum() > 0),
        round(y.sum().item(), 2),
        max(y.sum(), y.sum() + 1),
        sorted([y.sum(), y.sum() - 1]),
    )


@programs(tensor(3))
def builtins_of_tensors_without_data(x):
    return abs(x), sum(x), len(x), pow(x, 2), pow(2, x), list(reversed(x))[0], max(x.shape), sum(x.shape)


@programs(tensor(2), [1, 2])
def list_of_the_list_itself(x, items):
    copy = list(items)
    copy.append(3)
    same = tuple(t := (1, 2)) is t
    return x + len(items), copy, items, same, frozenset(f := frozenset([1])) is f


@programs(tensor(2))
def classmethods_of_builtins(x):
    a = (
        dict.fromkeys("ab"),
        dict.fromkeys([1], x),
        int.from_bytes(b"\x01\x00", "big"),
        float.fromhex("0x1p3"),
        bytes.fromhex("41"),
        str.maketrans("a", "b"),
    )
    b = (
        (5).to_bytes(2, "big"),
        (5).bit_length(),
        (0.5).as_integer_ratio(),
        (3.0).is_integer(),
        (3 + 4j).conjugate(),
        (7).bit_count(),
        (2.5).hex(),
    )
    return a[1][1] + 1, a[0], a[2:], b


@programs(tensor(2))
def methods_through_their_classes(x):
    items = [3, 1]
    list.append(items, 2)
    list.sort(items)
    table = {"a": 1}
    dict.update(table, b=2)
    return (
        x + items[0],
        items,
        table,
        str.upper("a"),
        str.join("-", ["a", "b"]),
        dict.get(table, "c", 9),
        int.__add__(1, 2),
        object.__eq__(1, 1),
    )


@programs(tensor(2))
def bound_methods_as_values(x):
    items = []
    add = items.append
    for v in "ab":
        add(v)
    join = "-".join
    get = {"a": x}.get
    return get("a") + 1, items, join(items), add.__self__ is items, add.__name__


LEFT_TO_PYTHON = frozenset(
    "aiter anext breakpoint bytearray classmethod compile dir eval exec locals memoryview open property".split()
) | {"staticmethod"}
if sys.version_info >= (3, 15):
    LEFT_TO_PYTHON |= {"frozendict", "sentinel"}
MADE_BY_SITE = frozenset({"copyright", "credits", "exit", "help", "license", "quit"})


def test_each_builtin_has_a_model_or_is_left_to_python_on_purpose():
    found = set()
    for name, value in vars(builtins).items():
        error = isinstance(value, type) and issubclass(value, BaseException)
        if callable(value) and not name.startswith("_") and not error and find_model(value) is None:
            found.add(name)
    assert found - MADE_BY_SITE == LEFT_TO_PYTHON


test_builtins = programs.test()
