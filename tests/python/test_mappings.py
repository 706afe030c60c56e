"""Dicts and their views, default, ordered and counting ones, chains, proxies; sets and frozensets."""

from __future__ import annotations

import copy
import types
from collections import ChainMap, Counter, OrderedDict, defaultdict

import pytest
import torch
from torch.utils._ordered_set import OrderedSet

import dynamo_lite as dl
from collector import Programs
from outcomes import outcomes
from programs import built, check, checked, repeated, tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


@program()
def dict_methods_on_an_alias(x, n):
    d = {"a": x, "b": 1}
    e = d
    e["c"] = d.pop("a")
    d.setdefault("b", 5)
    d.setdefault("z", []).append(x)
    CUT
    e.update({"b": 2}, y=3)
    last = d.popitem()
    return (x + 1, d, e is d, last, list(e), d.get("none", 7), len(d), "c" in e, d | {"q": 1})


@program({"b": 1, "a": 2}, tensor(3), others=[({"z": 1}, tensor(5, seed=1))])
def dict_argument_changed_for_the_caller(d, x):
    for key in list(d):
        d[key + key] = x * d.pop(key)
    CUT
    d["new"] = [x]
    return list(d.values())


@program()
def dict_order_after_delete_and_update(x, n):
    d = dict(a=1, b=2, c=3)
    del d["a"]
    d["a"] = x
    d["b"] = 5
    CUT
    d |= {"d": 4, "c": 0}
    return (x + 1, d, list(reversed(d)), next(iter(d)), [*d.items()])


@program()
def dict_keys_of_many_types(x, n):
    d = {1: "int", "1": "str", (1, 2): "tuple", None: "none", 1.5: "float", True: "bool", frozenset({1}): "set"}  # noqa: F601
    d[1.0] = "float one"
    d[torch.float32] = x
    d[int] = "class"
    CUT
    return (x + 1, d, d[True], d[(1, 2)], len(d), list(d)[0])


@program()
def dict_with_unhashable_keys(x, n):
    calls = [lambda: {[]: 1}, lambda: {}.get([]), lambda: {{}}, lambda: {1: 2}[[]], lambda: [] in {}, lambda: {[1]}]
    return x + 1, outcomes(*calls)


@program()
def dict_errors(x, n):
    d = {"a": 1}
    return x + 1, outcomes(
        lambda: d["none"],
        lambda: d[(1, 2)],
        lambda: d.pop(5),
        lambda: {}.popitem(),
        lambda: d.__delitem__("none"),
        lambda: d.update(5),
        lambda: d < d,
        lambda: d + d,
    )


@program()
def dict_views_are_live(x, n):
    d = {"a": x, "b": 1}
    keys, values, items = d.keys(), d.values(), d.items()
    d["c"] = 2
    CUT
    del d["b"]
    return x + 1, list(keys), [v for v in values][1], list(items)[1], len(keys), "a" in keys, ("c", 2) in items


@program()
def views_of_items_as_sets(x, n):
    a, b = {"x": 1, "y": 2}, {"y": 2, "z": 3}
    both, either = a.items() & b.items(), a.items() | [("q", 0)]
    CUT
    equal = a.items() == b.items(), a.items() != b.items(), {"k": [1]}.items() == {"k": [1]}.items()
    same = OrderedDict(a).items() == OrderedDict(y=2, x=1).items()
    return x + 1, both, sorted(either), a.items() - b.items(), sorted(b.items() ^ a.items()), equal, same


@program()
def dict_views_as_sets(x, n):
    a, b = {"x": 1, "y": 2}, {"y": 2, "z": 3}
    CUT
    return (
        x + 1,
        sorted(a.keys() & b.keys()),
        sorted(a.keys() | ["q"]),
        sorted(a.keys() - b),
        a.keys() == {"x", "y"},
        a.keys() <= {"x", "y", "z"},
    )


@program()
def dict_changed_while_it_is_iterated(x, n):
    d = {"a": 1, "b": 2}
    try:
        for key in d:
            CUT
            d[key + "!"] = 1
    except RuntimeError as error:
        return x + len(d), str(error), list(d)


@program()
def dict_equality_and_copies(x, n):
    d = {"a": [x], "b": 1}
    e = d.copy()
    e["a"].append(1)
    e["c"] = 3
    CUT
    same = {"a": 1} == {"a": 1.0}, {1: 2, 3: 4} == {3: 4, 1: 2}
    return x + 1, d, e, d == e, same, dict(d) is d, dict.fromkeys("ab", 1)


@program()
def defaultdict_with_factories(x, n):
    groups = defaultdict(list)
    for i in range(n):
        groups[i % 2].append(x * i)
    counts = defaultdict(lambda: 5)
    counts["a"] += 1
    CUT
    missing = "z" in counts, counts.get("z"), counts["z"]
    groups.setdefault("q", 1)
    return groups, dict(counts), missing, groups.default_factory is list, counts == {"a": 6, "z": 5}


@program()
def ordered_dict_methods(x, n):
    d = OrderedDict(a=x, b=1, c=2)
    d.move_to_end("a")
    first = d.popitem(last=False)
    CUT
    d.move_to_end("a", last=False)
    other = OrderedDict([("a", x), ("c", 2)])
    return (
        x + 1,
        d,
        first,
        list(d),
        d == other,
        OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1),
        list(reversed(d)),
        d.copy(),
    )


class Ordered(OrderedDict):
    """Has methods of its own type only."""


@program()
def ordered_dicts_updated_by_items_that_are_no_pairs(x, n):
    texts = []
    for kind in (OrderedDict, Ordered):
        for items in ([()], [(1,)], [(1, 2, 3)], [(1, x)]):
            made = kind(a=n)
            try:
                made.update(items)
            except ValueError as error:
                texts.append(str(error))
    CUT
    return x + 1, texts, made


class Bag:
    def __init__(self, **fields):
        self.__dict__.update(fields)


@program(Bag(a=1, b=[2]), tensor(3), others=[(Bag(), tensor(3, seed=1))])
def attributes_as_a_dict(bag, x):
    bag.__dict__["log"] = [x + 1]
    made = Bag(a=1)
    CUT
    equal = dict(vars(made)) == {"a": 1}, [*vars(bag).items()], "log" in vars(bag), made.__dict__.get("none")
    return x * 2, vars(bag), equal, vars(made).copy()


def noted():
    made = OrderedDict(a=1, b=2)
    made.note = 3
    return made


@program(noted(), tensor(3), others=[(OrderedDict(a=1, b=2), tensor(3, seed=1))])
def attributes_of_an_ordered_dict(d, x):
    before = getattr(d, "note", None), dict(vars(d))
    d.note = x + 1
    d.added = [x]
    CUT
    if before[0]:
        del d.note
    made = OrderedDict(c=x)
    made.note = d.added
    return x * 2, before, vars(d), made, vars(made), vars(d.copy()), made == OrderedDict(c=x), hasattr(made, "absent")


@program(noted(), tensor(3))
def copies_of_an_ordered_dict_with_attributes(d, x):
    d.list = [1]
    shallow, deep = copy.copy(d), copy.deepcopy(d)
    CUT
    d["c"] = 5
    d.note = 7
    return x + 1, shallow, vars(shallow), deep, vars(deep), shallow.list is d.list, deep.list is d.list


@program()
def counter_of_items(x, n):
    c = Counter("abracadabra")
    c.update("aa")
    c.subtract(b=1)
    CUT
    some = sorted(c.elements())[:3]
    return x * c["a"], c.most_common(), c["none"], some, c + Counter(a=1), sum(c.values()), c.total()


@program()
def chain_map_layers(x, n):
    base, top = {"a": 1, "b": x}, {"a": 2}
    maps = ChainMap(top, base)
    maps["c"] = 3
    CUT
    child = maps.new_child({"a": 9})
    layers = maps["a"], top, list(maps), child["a"], "none" in maps
    return maps["b"] * 2, layers, len(maps), dict(maps), maps.get("q", 1)


@program()
def mapping_proxy_is_live(x, n):
    d = {"a": x}
    proxy = types.MappingProxyType(d)
    d["b"] = 2
    CUT
    return proxy["a"] + 1, list(proxy), len(proxy), "b" in proxy, proxy.get("z", 5), bool(proxy)


@program()
def simple_namespace(x, n):
    space = types.SimpleNamespace(a=x, b=n)
    space.c = space.a * 2
    CUT
    del space.b
    return space.c, sorted(space.__dict__), hasattr(space, "b"), repr(space.__class__)


@program()
def set_methods(x, n):
    s = {3, 1, 2}
    t = s
    t.add(4)
    s.discard(9)
    s.remove(1)
    CUT
    s.update([5, 6], {7})
    s &= {2, 3, 5, 7}
    t |= {8}
    s -= {2}
    s ^= {3, 9}
    return x * len(s), sorted(s), s is t, 8 in s, s == {5, 7, 8, 9}


@program()
def set_algebra(x, n):
    a, b = {1, 2, 3}, {2, 3, 4}
    CUT
    return (
        x + 1,
        a | b,
        a & b,
        a - b,
        a ^ b,
        a.union([9], (8,)),
        a.intersection([1], [1, 2]),
        a.difference([1]),
        a.symmetric_difference([1, 7]),
        a <= {1, 2, 3, 4},
        a < a,
        a >= {1},
        a.issubset(b),
        a.issuperset([1]),
        a.isdisjoint({7}),
    )


@program()
def set_in_place_methods(x, n):
    a = {1, 2, 3, 4}
    a.intersection_update([1, 2, 3])
    a.difference_update([1], [9])
    CUT
    a.symmetric_difference_update({3, 5})
    popped = {7}.pop()
    a.copy().clear()
    return x * popped, a


@program()
def set_errors(x, n):
    calls = lambda: {1}.remove(2), lambda: set().pop(), lambda: {1} | [2], lambda: {1} < 2, lambda: list({1})[3]
    return x + 1, outcomes(*calls)


@program()
def frozensets(x, n):
    f = frozenset([1, 2])
    g = f | {3}
    CUT
    kinds = type({1} | f), type(f | {1})
    return x + len(g), f & {1}, {f: 1}[frozenset({2, 1})], f == {1, 2}, kinds, hash(f) == hash(frozenset([2, 1]))


@program({"b", "a", "c"}, tensor(3), others=[({"q"}, tensor(5, seed=1))])
def set_argument_is_iterated(names, x):
    out = []
    for name in names:
        out.append((name, x + len(out)))
    CUT
    return out, sorted(names), len(names)


@program({3, 1, 2}, tensor(3), graphs=(1, 2), breaks=(0, 2), others=[({5}, tensor(5, seed=1))])
def set_argument_is_changed(numbers, x):
    numbers.add(10)
    numbers.discard(1)
    numbers |= {7}
    CUT
    total = sum(numbers)
    return x * total, [i for i in numbers], max(numbers)


@program()
def set_order_of_what_was_made_inside(x, n):
    s = set()
    for i in (8, 16, 0, 1):
        s.add(i)
    CUT
    t = {c for c in "hello"}
    return x + 1, list(s), list(t), tuple(s | {3}), [i for i in s - {0}]


class Doubling(dict):
    """A dict in which indexing returns another value than the stored one."""

    def __getitem__(self, key):
        return super().__getitem__(key) * 2

    def keys(self):
        return ["made up"]


@program()
def derived_dict_is_merged_by_its_items(x, n):
    d = Doubling(a=1, b=x)
    CUT
    made = dict(d), {**d}, (lambda **named: named)(**d), list(d)
    return d["b"], made, d["a"], {"z": 0} | d


@program()
def what_is_no_mapping_is_not_unpacked(x, n):
    return x + 1, outcomes(lambda: {**()}, lambda: {**""}, lambda: {**5}, lambda: [*5], lambda: vars(5))


@program()
def text_of_derived_dicts(x, n):
    made = OrderedDict(a=1), defaultdict(list, a=[1]), Counter("a"), {"k": OrderedDict()}
    CUT
    return x + 1, [str(each) for each in made], f"{made[0]}", "%s" % made[1]


@program()
def order_of_combined_sets(x, n):
    a, b = {8, 16, 0}, {"x", "y", 3}
    c = (a | b) - {0}
    c.add(24)
    CUT
    d = c ^ {8, 32}
    d &= {16, 24, 32, "x", "y"}
    return x + 1, list(c), list(d), list(a.union([40], (48,))), [d.pop() for _ in range(2)], list(d)


test_program = program.test()


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_proxies_that_are_kept(kind):
    def build():
        table = kind(a=1, b=2)
        proxy = types.MappingProxyType(table)

        def fn(x):
            before = len(proxy), [*proxy.keys()], [*proxy.items()], "a" in proxy, sum(proxy.values()), proxy["b"]
            table["c"] = x + 1
            return before, [*proxy], [*proxy.values()][2], dict(proxy), {**proxy}, proxy

        return fn

    check(built(repeated(1)(build)), tensor(3))


def test_view_that_is_kept_of_what_changes():
    table = {"a": 1}
    keys = table.keys()

    def fn(x):
        return x + len(keys), [*keys]

    compiled = dl.compile(fn, backend="eager")
    for name in ("a", "b", "c"):
        table[name] = 1
        assert compiled(torch.zeros(1))[0].item() == len(table)
        assert compiled(torch.zeros(1))[1] == list(table)


@checked(tensor(3), OrderedSet([3, 1, 2]))
def test_ordered_set_of_torch(x, given):
    made = OrderedSet([1, 2, 3])
    made.add(5)
    made.discard(1)
    both = made | given
    for each in both:
        x = x * each
    return x, len(both), 5 in both, list(made), made


@pytest.mark.parametrize(
    "combine",
    [
        lambda: {1: [2]}.items() ^ {1: [2], 3: 4}.items(),
        lambda: {1: [2]}.items() & {3: 4}.items(),
        lambda: {1: 2}.items() & [[1]],
        lambda: [[1]] & {1: 2}.items(),
        lambda: {1: [2]}.items() - {1},
    ],
    ids=["symmetric_difference", "intersection", "intersection_with_a_list", "list_first", "difference"],
)
def test_views_of_items_that_are_not_hashable_are_combined_by_cpython(combine):
    """CPython hashes those items only that it looks up or adds."""

    def fn(x):
        y = x + 1
        try:
            return y, combine()
        except TypeError as error:
            return y, str(error)

    check(fn, tensor(3), graphs=None, breaks=(1, 3))
