"""Copies: copy, dataclasses' asdict, objects that define how they are copied."""

from __future__ import annotations

import collections
import copy
import dataclasses
import enum
import os
from typing import Any, NamedTuple

import torch

from collector import Programs
from programs import tensor

programs = Programs()


@programs(tensor(2), [1, [2, 3], {"a": 4}])
def shallow_copies_share_what_is_inside(x, items):
    a = copy.copy(items)
    a[1].append(5)
    a.append(6)
    b = (
        copy.copy({"k": items}),
        copy.copy((1, items)),
        copy.copy({1, 2}),
        copy.copy(range(3)),
        copy.copy("a"),
        copy.copy(None),
    )
    return x + len(a), a, items, b, b[0]["k"] is items, copy.copy((1, 2))


@programs(tensor(2), [1, [2, 3], {"a": [4]}])
def deep_copies_share_nothing(x, items):
    a = copy.deepcopy(items)
    a[1].append(5)
    a[2]["a"].append(6)
    return x + len(a), a, items


@programs(tensor(2))
def deep_copies_keep_what_is_shared(x):
    inner = [1]
    a = copy.deepcopy([inner, inner, {"k": inner}])
    a[0].append(2)
    loop = [1]
    loop.append(loop)
    b = copy.deepcopy(loop)
    return x + len(a), a, a[0] is a[1], a[2]["k"] is a[0], inner, b[1] is b, b is not loop


@programs(tensor(2))
def copies_of_other_containers(x):
    d = collections.defaultdict(list, {"a": [1]})
    q = collections.deque([1, [2]], maxlen=3)
    o = collections.OrderedDict(a=[1])
    a, b, c = copy.copy(d), copy.copy(q), copy.copy(o)
    a["z"].append(1)
    b.append(3)
    e, f, g = copy.deepcopy(d), copy.deepcopy(q), copy.deepcopy(o)
    e["y"].append(2)
    f[1].append(9)
    g["a"].append(3)
    return x + 1, a, b, c, d, q, o, e, f, g


class Plain:
    def __init__(self, n, items):
        self.n = n
        self.items = items


@programs(tensor(2), Plain(3, [1]))
def copies_of_objects(x, thing):
    a, b = copy.copy(thing), copy.deepcopy(thing)
    a.n = 4
    a.items.append(2)
    b.items.append(3)
    return x * a.n + b.n, a, b, thing, type(b) is Plain


@programs(tensor(2))
def copies_of_objects_made_inside(x):
    thing = Plain(2, [1])
    thing.me = thing
    a, b = copy.copy(thing), copy.deepcopy(thing)
    return x * a.n, a.items is thing.items, b.items is thing.items, b.me is b, a.me is thing, b.items


class SaysHow:
    def __init__(self, n):
        self.n = n
        self.log = []

    def __copy__(self):
        made = type(self)(self.n + 10)
        made.log.append("copied")
        return made

    def __deepcopy__(self, memo):
        made = type(self)(self.n + 100)
        memo[id(self)] = made
        made.log.append(len(memo) > 0)
        return made


@programs(tensor(2), SaysHow(1))
def objects_say_how_they_are_copied(x, thing):
    a, b = copy.copy(thing), copy.deepcopy([thing, thing])
    return x * a.n + b[0].n, a.log, b[0] is b[1], b[0].log


class Keeps:
    def __init__(self):
        self.kept = 1
        self.dropped = [1]

    def __getstate__(self):
        return {"kept": self.kept}

    def __setstate__(self, state):
        self.__dict__.update(state, restored=True)


@programs(tensor(2), graphs=(1, 3))
def objects_with_a_state(x):
    a = copy.copy(Keeps())
    b = copy.deepcopy(Keeps())
    return x + a.kept, a.restored, hasattr(b, "dropped")


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


@programs(tensor(2), graphs=(1, 3))
def objects_with_slots(x):
    a = copy.copy(Slotted([1]))
    b = copy.deepcopy(a)
    b.a.append(2)
    return x + len(a.a), a.a, b.a, hasattr(b, "b")


class Color(enum.Enum):
    RED = 1


@programs(tensor(2))
def what_is_never_copied(x):
    things = 1, "a", None, (1, 2), Color.RED, len, Plain, torch.float32, what_is_never_copied, ..., range(3)
    return x + 1, [(copy.copy(each) is each, copy.deepcopy(each) is each) for each in things]


@programs(tensor(2), [tensor(2, seed=1)], graphs=None)
def copies_of_tensors(x, parts):
    a, b = copy.copy(parts), copy.deepcopy(parts)
    a[0].add_(1)
    b[0].mul_(2)
    return x + parts[0], b[0] is parts[0], a[0] is parts[0], b


@programs(tensor(2), graphs=None)
def a_deepcopy_with_a_memo(x):
    inner = [1]
    memo = {id(inner): "seen"}
    return x + 1, copy.deepcopy([inner], memo)


@dataclasses.dataclass
class Config:
    n: int = 2
    names: list = dataclasses.field(default_factory=list)
    inner: Any = None
    hidden: int = dataclasses.field(default=5, repr=False, compare=False)


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int = 2
    inner: Any = None


@programs(tensor(2), Config(3, ["a"], Config(4)))
def a_dataclass_as_a_dict(x, config):
    table = dataclasses.asdict(config)
    table["names"].append("b")
    return x * table["n"] + table["inner"]["n"], table, config, dataclasses.astuple(Frozen(1, Frozen(2)))


class Pair(NamedTuple):
    a: Any
    b: Any


@programs(tensor(2))
def copies_of_named_tuples(x):
    p = Pair([1], x)
    a, b = copy.copy(p), copy.deepcopy(Pair([1], (2, [3])))
    b.a.append(2)
    return p.b + 1, a.a is p.a, b, type(b) is Pair, type(a) is Pair


class Counted(NamedTuple):
    a: Any

    def __copy__(self):
        return Counted(self.a + 1)

    def __deepcopy__(self, memo):
        return Counted(self.a + 2)


@programs(tensor(2), graphs=(0, 2))
def copies_of_named_tuples_that_say_how(x):
    return copy.copy(Counted(1)), copy.deepcopy(Counted(1)), x + 1


@programs(tensor(2, 3))
def copies_of_sizes(x):
    a, b = copy.copy(x.shape), copy.deepcopy(x.shape)
    return x + 1, a, b, type(a), type(b), a is x.shape, b == x.shape


@programs(tensor(2, 3), graphs=2)
def struct_sequences(x):
    found = x.max(1)
    made = torch.return_types.max((x, 1))
    size = os.terminal_size((80, 24))
    sizes = size.columns, size[1], list(size), size == (80, 24), repr(size)
    return found, made.values + 1, made.indices, copy.copy(found).indices, sizes, type(size)


@programs(tensor(2), (1, (2, 3)))
def tuples_with_nothing_to_copy(x, given):
    made = (1, (x.dim(), 3))
    found = []
    for each in (given, made):
        copies = copy.deepcopy([each, each, (each, [1])])
        found += [copies, copies[0] is each, copies[1] is each, copies[2][0] is each]
    inside = []
    loop = (inside, 1)
    inside.append(loop)
    one, other = copy.deepcopy(loop), copy.deepcopy(inside)
    return x + 1, found, one[0][0] is one, one is loop, other[0][0] is other


test_copy = programs.test()
