"""Methods as objects: their types, attributes and comparisons. Iterators' types."""

from __future__ import annotations

import collections
import types

import torch

from collector import Programs
from programs import tensor

programs = Programs()

found_order = collections.OrderedDict(a=1, b=2)


@programs(tensor(3), graphs=None, breaks=None)
def methods_of_tensors(x):
    m = x.add
    return (
        m(1),
        (m.__name__, x.norm.__name__, m.__self__ is x, callable(m)),
        (type(m), type(x.backward), type(x.__add__), type(torch.Tensor.add), isinstance(m, types.BuiltinMethodType)),
        (m == x.add, m != x.add, m == x.mul, m is m, x.add is x.add, x.norm == x.norm, m == len),
        (x.norm.__func__ is torch.Tensor.norm, x.norm.__doc__ == torch.Tensor.norm.__doc__, hasattr(m, "absent")),
    )


@programs(tensor(3), operators=2)
def methods_of_tensors_in_one_graph(x):
    m = x.add
    return m(1), m == x.add, m == x.mul, x.norm == x.norm, x.norm.__name__, type(m), type(x.norm) is type(m), x + 2


@programs(tensor(3), graphs=None, breaks=None)
def methods_in_c(x):
    items = [1]
    m = items.append
    return (
        x + 1,
        (m.__name__, m.__self__ is items, m == items.append, m == [1].append, m is items.append, hasattr(m, "absent")),
        (type(m), type(items.__len__), type([].__iter__), type((1).__add__), type(object().__str__)),
        (type(list.append), type(list.__len__), type(dict.__dict__["fromkeys"]), type(dict.fromkeys)),
    )


def kinds(d):
    views = d.keys(), d.values(), d.items()
    return [type(each) for each in (iter(d), reversed(d), *views, *map(iter, views), *map(reversed, views))]


@programs(tensor(3))
def iterators_over_dicts(x):
    made = collections.OrderedDict(b=1, a=2)
    return x + 1, kinds(made), kinds(found_order), kinds({1: 2}), kinds(collections.defaultdict(int, a=1))


test_programs = programs.test()
