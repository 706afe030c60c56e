"""Builtin functions over items: their keys, defaults and functions with state, laziness, errors in the middle."""

from __future__ import annotations

import torch

import dynamo_lite as dl
from collector import Programs
from programs import checked, tensor

programs = Programs()


@programs(tensor(2), [3, -1, 2], others=[(tensor(2), [5])])
def min_and_max_in_every_form(x, items):
    a = min(items), max(items), min(*items, 0), max(items, key=lambda v: -v), min([], default=x) is x
    b = (
        max("ab", "b"),
        min((1, 2), (1,)),
        max([[1], [2]]),
        max({"a": 1, "b": 0}),
        max({"a": 1, "b": 0}.items(), key=lambda p: p[1]),
    )
    return x + a[0], a, b, max(2, 2.0), max(2.0, 2), min(1, True)


@programs(tensor(2))
def min_keeps_the_first_of_equals(x):
    a, b = [1], [1]
    calls = []

    def key(v):
        calls.append(v)
        return 0

    return x + 1, min(a, b) is a, max(a, b) is a, max("xyz", key=key), calls


@programs(tensor(2))
def sum_in_every_form(x):
    a = sum([1, 2, 3]), sum([], 5), sum((x for x in range(3)), start=10), sum([[1], [2]], []), sum([(1,), (2,)], ())
    b = sum([0.1] * 10), sum([1, 2.5, True]), sum([10**20, 1]), sum([1j, 2])
    return sum([x, x]), sum([x], x), a, b


class Item:
    def __init__(self, n, log):
        self.n = n
        self.log = log

    def __radd__(self, other):
        self.log.append(("r", other))
        return self.n + other

    def __add__(self, other):
        self.log.append(("l", self.n))
        return other


@programs(tensor(2))
def sum_adds_from_the_left(x):
    log = []
    a = sum([Item(1, log), Item(2, log)])
    return x + a, sum([Item(5, log), x], Item(4, log)), log


@programs(tensor(2), [1, 0, 2])
def any_and_all_stop_early(x, items):
    seen = []

    def test(v):
        seen.append(v)
        return v

    it = iter(items)
    a = all(map(test, it))
    b = list(it)
    c = any(test(v) for v in items)
    return x + 1, a, b, c, seen, any([]), all([])


@programs(tensor(2), ["b", "A", "c"])
def sorted_in_every_form(x, names):
    a = sorted(names), sorted(names, key=str.lower), sorted(names, reverse=True), sorted("hello", key=None)
    b = sorted({"b": 1, "a": 2}), sorted({3, 1, 2}), sorted([(1, "b"), (1, "a"), (0, "z")])
    c = sorted([True, 0, 2.5, -1]), sorted(range(3), key=lambda v: -v), sorted(v for v in (2, 1))
    return x + len(a), a, b, c, names


@programs(tensor(2), [3, 1, 2])
def sort_sees_an_empty_list(x, items):
    lengths = []

    def key(v):
        lengths.append(len(items))
        return v

    items.sort(key=key)
    return x + 1, items, lengths


@programs(tensor(2), [3, 1, 2])
def sort_that_fails_halfway(x, items):
    def key(v):
        if v == 2:
            raise KeyError(v)
        return v

    try:
        items.sort(key=key)
    except KeyError:
        pass
    return x + 1, items


class Down:
    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        return self.n > other.n


@programs(tensor(2))
def sorted_by_objects_with_an_order(x):
    return x + 1, sorted([1, 3, 2], key=Down), max([1, 3, 2], key=lambda v: (v % 3, v))


@programs(tensor(3))
def sorted_by_a_fact_of_tensors(x):
    parts = [x.expand(2, 3), x, x.expand(4, 2, 3)]
    return [p.sum() for p in sorted(parts, key=lambda t: -t.dim())]


@programs(tensor(2), [1, 2, 3, 4])
def map_and_filter_in_every_form(x, items):
    a = list(map(lambda p, q: p * q, items, [10, 20])), list(map(str, items)), list(map(None.__class__, []))
    b = list(filter(None, [0, 1, "", "a", None])), list(filter(lambda v: v % 2, items)), list(filter(bool, items))
    c = list(map(items.index, [1, 3])), list(map(int, "12")), list(map([].append, [1]))
    return x + len(a), a, b, c


class Row:
    def __init__(self, n):
        self.n = n

    def double(self):
        return self.n * 2


@programs(tensor(2))
def map_of_methods_and_classes(x):
    rows = list(map(Row, [1, 2]))
    return x + 1, [row.n for row in rows], list(map(Row.double, rows)), list(map(torch.sin, [x, x + 1]))


@programs(tensor(2))
def enumerate_zip_and_reversed(x):
    a = list(enumerate("ab", 5)), list(enumerate([], start=1)), list(zip("ab", [1, 2], (x is None, True)))
    b = list(reversed([1, 2])), list(reversed("abc")), list(reversed(range(3))), list(reversed({"a": 1, "b": 2}))
    c = list(zip()), list(zip(*[(1, 2), (3, 4)])), dict(zip("ab", range(2)))
    return x + 1, a, b, c, list(reversed((1, 2)))


@programs(tensor(2), [1, 2, 3])
def reversed_sees_changes(x, items):
    it = reversed(items)
    first = next(it)
    items[0] = 9
    items.append(4)
    return x + first, list(it)


@checked(tensor(2), [0.1] * 10 + [1e16, 1.0, -1e16], operators=1)
def test_sum_of_floats_is_as_exact_as_pythons(x, items):
    return x + sum(items), sum(items), sum(items, 1.0), sum(iter(items)), sum(v for v in items)


test_builtins = programs.test()


@checked(tensor(2), range(10**12), graphs=None)
def test_reversed_constants_are_taken_item_by_item(x, far):
    letters, numbers, raw = reversed("abcd"), reversed(far), reversed(b"xyz")
    taken = next(letters), next(numbers)
    dl.graph_break()
    kinds = [type(each).__name__ for each in (letters, numbers, raw)]
    return x + 1, taken, next(letters), next(numbers), kinds, list(raw)
