"""Effects on two objects, each of which is an operand of the other: their order, with breaks before, between and
after.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, defaultdict, deque  # noqa: F401 - the programs' globals

import pytest
import torch

import dynamo_lite as dl
from programs import check, recompiling, tensor


class Holder:
    def __init__(self, **values):
        self.__dict__.update(values)

    def __repr__(self):
        return repr(self.__dict__)


SETS = """t.update(o); t |= o - t; t &= o; t ^= o; t.difference_update(o); t.intersection_update(o, [1, 9])
t.add(4); t.clear(); t.update(t); r.append(t | o); r.append(o - t); r.append(t.copy()); t.add(frozenset(o))"""
LISTS = "t.extend(o); t += t; t.append(o); t[1:2] = o; del t[0]; t.reverse(); r.append(t + o); r.append(iter(t))"
DICTS = "t.update(o); t |= o; t['o'] = o; t.pop(3, None); r.append(o.keys() - t.keys()); r.append(t.items()); t.clear()"
ORDERED = "t.update(o); t.move_to_end(3, last=False); t['o'] = o; t.popitem(last=False); t.tag = o; r.append(t.copy())"
DEFAULTS = "t[9].append(o); t.update(o); t.pop(1, None); t[3]; r.append(t.copy()); t[1] = o.get(3)"
DEQUES = "t.extend(o); t += o; t.append(o); t.rotate(1); t.appendleft(len(o)); r.append(t + o); r.append(iter(t))"
OBJECTS = """t.p = o; t.q = o.q; del t.q; t.__dict__.update(o.__dict__); t.__dict__.pop('q', None)
r.append(dict(vars(t))); t.s |= o.s; t.s = o.s - t.s; t.s.update(t.s); r.append(t.s | o.s)
t.__dict__.setdefault('z', o.s); t.n = frozenset(t.s)"""
TENSORS = "t.tag = o; t.tag = 1; t.other = [o]; del t.tag; r.append(t.tag)"
MIXED = """a.update(b); b.extend(a); b += sorted(a); a -= set(b); b.append(frozenset(a)); a.difference_update(b)
b.clear(); b[:] = [len(a)]; r.append(set(b) - a); a.add(len(b)); a.clear(); a |= {*b}"""


def tagged():
    found = torch.ones(2)
    found.tag = 5
    return found


KINDS = {
    "sets": (SETS, "{1, 2, 3}", "{3, 9, 17}"),
    "lists": (LISTS, "[1, 2, 3]", "[4, [5], 6]"),
    "dicts": (DICTS, "{1: 2, 3: 4}", "{3: 5, 'k': [1]}"),
    "ordered_dicts": (ORDERED, "OrderedDict({1: 2, 3: 4})", "OrderedDict({3: 5, 'k': 1})"),
    "default_dicts": (DEFAULTS, "defaultdict(list, {1: [2]})", "defaultdict(list, {3: [5]})"),
    "deques": (DEQUES, "deque([1, 2, 3], 4)", "deque([7, 8])"),
    "objects": (OBJECTS, "Holder(p=1, q=[2], s={1, 2})", "Holder(q=3, s={2, 4})"),
    "tensors": (TENSORS, "tagged()", "tagged()"),
    "set_and_list": (MIXED, "{1, 2, 3}", "[3, 4, 9]"),
}
PLACES = ("p, q", "h.p, h.q", "P, Q", None, "p, q", "p, p")
"""Where the program has the two objects; None: it creates them."""
PROGRAM = """
def fn(p, q, h, x):
    a, b = {}
    r, y = [], x + 1
    {}
    r.append(x * 2)
    return y, r, a, b
"""


def programs(effects, *created):
    """A program for each pair of effects, each time with the objects, and with a break, at another place."""
    pairs = itertools.product(effects.replace("\n", "; ").split("; "), repeat=2)
    for number, (first, second) in enumerate(pairs):
        place = PLACES[number % len(PLACES)] or ", ".join(created)
        lines = [f"t, o = a, b; {first}", f"t, o = b, a; {second}"]
        if number // 2 % 4 < 3:
            lines.insert(number // 2 % 4, "dl.graph_break()")
        yield PROGRAM.format(place, "\n    ".join(lines))


def outcome(fn, created, namespace):
    """Returns the state of two objects after a call: values, orders and identities."""
    p, q = (eval(each, globals()) for each in created)
    h = Holder(p=p, q=q)
    namespace.update(P=p, Q=q)
    try:
        result = fn(p, q, h, torch.arange(3.0))
    except (TypeError, IndexError, KeyError, AttributeError) as error:  # of the program
        result = (type(error), [])
    things = [p, q, h.p, h.q, *result[2:], *result[1]]
    attributes = [vars(each) for each in things if isinstance(each, torch.Tensor)]
    same = [[one is other for other in things] for one in things]
    left = [[*each] if hasattr(each, "__next__") else each for each in result[1]]
    return repr((things[:4], left, attributes)), same


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_effects(kind):
    effects, *created = KINDS[kind]
    for text in programs(effects, *created):
        namespace = dict(globals())
        exec(text, namespace)
        fn = namespace["fn"]
        compiled = dl.compile(fn, backend="eager")
        for _ in range(2):
            assert outcome(compiled, created, namespace) == outcome(fn, created, namespace), text


def update_reads_other_set_before_its_mutation(x, a, b):
    a.update(b)
    b.add(4)
    return x + len(a)


def sets_read_each_other(x, a, b):
    a |= b
    b -= a
    a.update(a)
    a ^= {3}
    return x + 1


def new_set_of_state_between_two_mutations(x, a, b):
    a.add(20)
    between = a | b
    a.clear()
    between.update(a)
    b &= between
    return x + 1, between


def only_new_items_are_added(x, seen, names):
    new = names - seen
    seen |= new
    return x * len(new), new, seen.copy(), sorted(seen)


def frozen_state_as_key(x, a, b):
    table = {frozenset(a): x}
    a.difference_update(b)
    table[frozenset(a)] = x + 1
    return table


@pytest.mark.parametrize(
    "fn",
    [
        update_reads_other_set_before_its_mutation,
        sets_read_each_other,
        new_set_of_state_between_two_mutations,
        only_new_items_are_added,
        frozen_state_as_key,
    ],
    ids=lambda fn: fn.__name__,
)
def test_sets_in_one_graph(fn):
    check(recompiling(fn), tensor(3), {1, 2, 3}, {3, 9, 17})
