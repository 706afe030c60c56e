"""Building, unpacking, slicing and comprehensions."""

from __future__ import annotations

import collections

import pytest
import torch

from programs import check, ints, tensor
from table import Table

programs = Table(cut=False)

Point = collections.namedtuple("Point", ["x", "y"])


@programs(tensor(2), graphs=1, operators=3)
def displays(x):
    return (x, x + 1), [x * 2, 3], {"a": x - 1, 2: "b"}, {1, 2, "c"}, (), [], {}


@programs(tensor(2), [4, 5], graphs=1, operators=1)
def displays_with_stars(x, items):
    a = [0, *items, *(1, 2)]
    b = (*a, x + 1)
    c = {*items, 9}
    d = {"k": 1, **{"l": 2}, "k": 3}  # noqa: F601
    return a, b, c, d


@programs(tensor(2, 3), {"p": 1, "q": 2}, graphs=1, operators=(2, 4))
def unpacking_a_tensor_and_a_dictionary(x, table):
    a, b = x
    k1, k2 = table
    return a + b, k1, k2, [*table], {*table}


@programs(tensor(2), [1, 2, 3, 4], graphs=1, operators=1)
def slicing_of_sequences(x, items):
    s = slice(1, None, 2)
    return x + 1, items[1:3], items[::-1], items[-2:], items[s], "hello"[1:4], (1, 2, 3)[:2], s.indices(5), s


@programs(tensor(2), [1, 2, 3, 4], graphs=1, recompiles=True)
def slice_assignment_and_deletion_on_lists(x, items):
    items[1:2] = [x + 1, 7, 8]
    del items[0]
    items[::2] = [0] * len(items[::2])
    del items[-1:]
    return items


@programs(tensor(3, 4), torch.tensor([0, 2]), graphs=1, operators=10)
def static_indexing_of_tensors(x, i):
    return x[0], x[:, 1], x[..., -1], x[None], x[1:, ::2], x[i], x[[0, 1]], x[0, 1], x[i, :1], x[()]


@programs(tensor(3, 4), torch.tensor([2]), graphs=1, operators=(9, 11))
def storing_into_tensors(x, i):
    y = x.clone()
    y[0] = 1.0
    y[:, 1] = y[:, 0]
    y[i] = torch.zeros(4)
    y[1, 1] += 5
    y[..., 3] = torch.tensor(2.0)
    return y


@programs(tensor(3, 4), graphs=1, operators=3)
def boolean_mask_assignment(x):
    y = x.clone()
    y[y > 0] = 0
    return y


@programs(tensor(2), graphs=(0, 1))
def list_methods(x):
    a = [3, 1]
    a.append(x)
    a.extend((5, 6))
    a.insert(0, "first")
    b = a.pop()
    c = a.pop(0)
    a.remove(1)
    d = a.index(5)
    e = a.count(3)
    a.reverse()
    f = a.copy()
    f.clear()
    g = [3, 1, 2]
    g.sort(reverse=True)
    return a, b, c, d, e, f, g, [1] + [2], [0] * 3, len(a)


@programs(tensor(2), graphs=1, operators=1)
def dictionary_methods(x):
    d = {"a": x + 1, "b": 2}
    d["c"] = 3
    e = d.pop("b")
    f = d.pop("missing", None)
    g = d.get("a"), d.get("z", 5)
    h = d.setdefault("n", [])
    h.append(1)
    d.update({"u": 1}, v=2)
    i = d | {"w": 3}
    k = list(d), list(d.keys()), list(d.values()), list(d.items())
    del d["u"]
    last = d.popitem()
    return d, e, f, g, i, k, last, "a" in d, len(d), dict.fromkeys("ab", 0), dict([("p", 1)])


@programs(tensor(2), graphs=1, operators=1)
def set_methods(x):
    s = {1, 2}
    s.add(3)
    s.discard(1)
    s.update([7, 8])
    t = frozenset([2, 7])
    return x + len(s), s, s | t, s & t, s - t, s ^ t, t <= s, sorted(s), s.isdisjoint({100})


@programs(tensor(2), ["a", "bb"], graphs=1, operators=2)
def dictionary_and_set_comprehension(x, names):
    return {n: x * i for i, n in enumerate(names)}, {len(n) for n in names}


@programs(tensor(2), graphs=1, operators=8)
def generator_expressions_that_are_used_up(x):
    a = sum(x * i for i in range(3))
    b = tuple(i * i for i in range(3))
    c = list(x + i for i in range(2))
    d = any(i > 1 for i in range(3)), all(i < 1 for i in range(3))
    e = max(i for i in (3, 1)), ",".join(str(i) for i in range(3))
    return a, b, c, d, e


@programs(Point(1, 2), tensor(2), graphs=1, operators=2)
def namedtuple(p, x):
    q = Point(x + p.y, y=3)
    a, b = q
    r = q._replace(y=7)
    return q, a * b, r.y, q[0] is a, p._fields, isinstance(q, tuple), q._asdict()["y"], Point._make([1, 2])


@programs(tensor(3, 4), graphs=1, operators=(5, 6))
def named_results_of_torch_functions(x):
    result = x.max(dim=1)
    values, indices = x.topk(2)
    s = torch.sort(x, dim=0)
    return result.values + values[:, 0], indices, result[1], s.indices, s


@programs(tensor(2), graphs=1, operators=2)
def ordered_and_default_dictionaries(x):
    d = collections.OrderedDict(a=x + 1)
    d["b"] = 2
    d.move_to_end("a")
    e = collections.defaultdict(list)
    e["k"].append(x * 2)
    return d, e, list(d), e["k"][0]


@programs(tensor(2), graphs=(0, 1))
def deque_and_counter(x):
    q = collections.deque([1, 2], maxlen=3)
    q.append(x + 1)
    q.appendleft(0)
    first = q.popleft()
    return q, first, len(q)


@programs(tensor(2), graphs=1, operators=1)
def chain_of_containers_keeps_identity(x):
    inner = [x + 1]
    outer = {"a": inner, "b": (inner, inner)}
    inner.append(2)
    return outer, inner


@programs(tensor(2), graphs=(0, 1))
def container_holding_itself(x):
    items = [x + 1]
    items.append(items)
    return items


def test_argument_containers_of_every_kind():
    def fn(t):
        return t["list"][0] + t["tuple"][1] * t["dict"]["k"], t["set"], len(t["empty"])

    x = tensor(2)
    check(fn, {"list": [x], "tuple": (1, x), "dict": {"k": 3.0}, "set": {1, 2}, "empty": []}, graphs=1, operators=2)


@programs(ints(3, 4), graphs=0, operators=0)
def subscript_of_constants_and_shapes(x):
    return x.shape[-1], x.size(0), x.size()[1:], x.stride()[0], x.shape[:1] + (7,), x.numel() * 2, len(x)


@programs(tensor(2), {torch.float32: 5, True: "one"}, graphs=1, operators=1)
def dictionary_with_odd_keys(x, table):
    table[(1, "b")] = x + 1
    table[None] = table[torch.float32] * 2
    return table[True], table


@programs(tensor(2), [("p", 1), ("q", 2)], graphs=1, operators=1)
def sorted_min_max_reversed_zip(x, items):
    a = sorted(items, key=lambda p: -p[1])
    b = min(items, key=lambda p: p[1])
    c = max(3, 5, *[1, 9]), min([4, 2]), max([], default=0)
    d = list(reversed(items)), list(zip(items, "ab", strict=False)), list(map(len, items))
    e = list(filter(None, [0, 1, "", "s"])), list(enumerate("ab", 1)), sum([1, 2], 10)
    return x * b[1], a, b, c, d, e


@pytest.mark.parametrize("case", programs.parameters())
def test_program(case):
    case.run()
