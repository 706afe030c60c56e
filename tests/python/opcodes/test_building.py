"""Building, unpacking, slicing and comprehensions."""

from __future__ import annotations

import collections

import torch

from collector import Programs
from programs import ints, tensor

programs = Programs()

Point = collections.namedtuple("Point", ["x", "y"])


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


@programs(tensor(3, 4), torch.tensor([0, 2]), graphs=1, operators=10)
def static_indexing_of_tensors(x, i):
    return x[0], x[:, 1], x[..., -1], x[None], x[1:, ::2], x[i], x[[0, 1]], x[0, 1], x[i, :1], x[()]


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


@programs(ints(3, 4), graphs=0, operators=0)
def subscript_of_constants_and_shapes(x):
    return x.shape[-1], x.size(0), x.size()[1:], x.stride()[0], x.shape[:1] + (7,), x.numel() * 2, len(x)


@programs(tensor(2), {torch.float32: 5, True: "one"}, graphs=1, operators=1)
def dictionary_with_odd_keys(x, table):
    table[(1, "b")] = x + 1
    table[None] = table[torch.float32] * 2
    return table[True], table


test_program = programs.test()
