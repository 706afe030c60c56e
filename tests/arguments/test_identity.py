"""Identity: two arguments are the same object in one call and different objects in the next."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, check, checked, tensor, without_breaks


class Thing:
    pass


class UnlikeItself:
    def __eq__(self, other):
        return False

    __hash__ = object.__hash__


class HashedById:
    def __hash__(self):
        return id(self)


class Pair(tuple):
    pass


@dataclasses.dataclass(frozen=True)
class Holder:
    held: Any


class Receiver:
    def method(self): ...


def make_function():
    def function(): ...

    return function


KINDS: dict[str, Callable[[], Any]] = {
    "object": Thing,
    "module": torch.nn.Module,
    "function": make_function,
    "tensor": lambda: tensor(1),
    "list": lambda: [1],
    "dict": lambda: {Thing(): 1},
    "set": lambda: {1},
    "tuple": lambda: (Thing(),),
    "tuple of one's own": lambda: Pair((Thing(),)),
    "partial": lambda: functools.partial(make_function),
    "method": lambda: Receiver().method,
    "method in C": lambda: [].append,
    "exception": lambda: ValueError(1),
    "not a number": lambda: float("nan"),
    "large number": lambda: int("1000"),
    "range": lambda: range(3),
    "device": lambda: torch.device("cpu", 0),
    "cell": lambda: types.CellType(1),
    "empty cell": types.CellType,
    "module of Python": lambda: types.ModuleType("it"),
    "unlike itself": UnlikeItself,
    "hashed by id": HashedById,
    "frozen": lambda: Holder(Thing()),
}


def same(x, a, b):
    return x + (a is b)


def removed(x, a, b):
    items = [a, b]
    items.remove(b)
    return x + (items[0] is a)


def copied(x, a, b):
    one, other = copy.copy([a, b])
    return x + (one is other)


def copied_deeply(x, a, b):
    one, other = copy.deepcopy([a, b])
    return x + (one is other)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "same": same,
    "equal": lambda x, a, b: x + (a == b),
    "in list": lambda x, a, b: x + (a in [b]),
    "index": lambda x, a, b: x + [a, b].index(b),
    "removed": removed,
    "lists": lambda x, a, b: x + ([a] == [b]),
    "in values": lambda x, a, b: x + (a in {1: b}.values()),
    "as items": lambda x, a, b: x + len({a, b}),
    "as keys": lambda x, a, b: x + len({a: 1, b: 2}),
    "looked up": lambda x, a, b: x + {a: 1}.get(b, 5),
    "in tuples": lambda x, a, b: x + len({(a, 1), (b, 1)}),
    "in frozen dataclasses": lambda x, a, b: x + len({Holder(a), Holder(b)}) + (Holder(a) == Holder(b)),
    "ids": lambda x, a, b: x + len({id(a), id(b)}) + (id(a) == id(b)),
    "methods": lambda x, a, b: x + (same.__get__(a) == same.__get__(b)),
    "copied": copied,
    "copied deeply": copied_deeply,
}


def outcome(fn: Callable[..., Any], *args: Any) -> Any:
    try:
        return fn(*args).tolist()
    except Exception as error:
        return type(error), str(error)


COMPARED = ("object", "list", "tuple of one's own", "not a number", "unlike itself", "hashed by id")
"""Kinds that programs which compare objects tell apart; to the others only identity matters."""
PAIRED = [(name, kind) for name in PROGRAMS for kind in (KINDS if name == "same" else COMPARED)]


@pytest.mark.parametrize("name, kind", PAIRED)
def test_one_object_and_two(name: str, kind: str) -> None:
    program = PROGRAMS[name]
    x, a, b = torch.zeros(1), KINDS[kind](), KINDS[kind]()
    for calls in ([(a, b), (a, a)], [(a, a), (a, b)]):
        dl.reset()
        compiled = dl.compile(program, backend=Recorder())
        assert [outcome(compiled, x, *call) for call in calls] == [outcome(program, x, *call) for call in calls]


@pytest.mark.parametrize("kind", [list, tuple])
def test_operators_on_lists_return_the_list_they_wrote_into(kind):
    def fn(tensors):
        found = torch._foreach_add_(tensors, 1.0)
        return found is tensors, torch._foreach_zero_(tensors), tensors

    check(fn, kind([tensor(3)]))


def test_kept_result_of_a_cache_and_an_argument():
    @functools.cache
    def kept():
        return Thing()

    def fn(x, a):
        return x + len({a, kept()}) + (a is kept())

    calls = [(torch.zeros(1), a) for a in (Thing(), kept())]
    dl.reset()
    compiled = dl.compile(fn, backend=Recorder())
    assert [outcome(compiled, *call) for call in calls] == [outcome(fn, *call) for call in calls]


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(2, 2)
        self.other = torch.nn.Linear(2, 2)


def shared():
    net = Shared()
    net.other = net.one
    return net


@checked(shared(), tensor(2), others=[(Shared(), tensor(2))], all_graphs=2)
@checked(Shared(), tensor(2), others=[(shared(), tensor(2))], all_graphs=2)
def test_modules_of_a_module_that_shares_one(net, x):
    return x + len(list(net.modules()))


def test_tied_weights_of_a_functional_call():
    class Both(Shared):
        def forward(self, x):
            return self.one(x) * 10 + self.other(x)

    def fn(net, x, weight):
        return torch.func.functional_call(net, {"one.weight": weight}, x)

    def tied():
        net = Both()
        net.other.weight = net.one.weight
        return net

    check(fn, Both(), tensor(2), tensor(2, 2), others=[(tied(), tensor(2), tensor(2, 2))], all_graphs=2)
    check(fn, tied(), tensor(2), tensor(2, 2), others=[(Both(), tensor(2), tensor(2, 2))], all_graphs=2)


LAYER, OTHER, HELD = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.ones(2)
TABLE = {id(LAYER): 5}
NUMBERS = {id(LAYER), 3}


@checked(tensor(2))
def test_identity_numbers_beside_numbers_in_tables(x):
    found = TABLE[id(LAYER)], TABLE.get(id(OTHER), 3), id(LAYER) in TABLE, id(OTHER) in TABLE, id(LAYER) in NUMBERS
    return x + found[0], found, {id(LAYER): 1, id(OTHER): 2}[id(OTHER)], [id(OTHER), id(LAYER)].index(id(LAYER))


def test_parametrizations_kept_in_a_cache():
    class Symmetric(torch.nn.Module):
        def forward(self, weight):
            return weight.triu() + weight.triu(1).T

    parametrize = torch.nn.utils.parametrize
    layer = torch.nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    recorder = Recorder()
    compiled = dl.compile(lambda x: layer(layer(x)), backend=recorder)
    for _ in range(3):
        with parametrize.cached():
            x = tensor(2, 2, grad=True)
            assert torch.equal(compiled(compiled(x)), layer(layer(layer(layer(x)))))
    assert len(recorder.graphs) == 2 and dl.counters.graph_breaks == 0


def test_identity_numbers_of_arguments_beside_numbers():
    def fn(x):
        return x + 1 if id(x) in TABLE else x - 1

    compiled = dl.compile(fn, backend="eager")
    one, other = tensor(2), tensor(2)
    TABLE[id(other)] = 1
    for each in (one, other, one):
        assert torch.equal(compiled(each), fn(each))
    del TABLE[id(other)]


@checked(tensor(2), id(HELD), others=[(tensor(2), 3)], graphs=(1, 2), breaks=5)
def test_identity_numbers_that_are_computed_with(x, number):
    same = number == id(HELD), number != id(HELD), number < id(HELD)
    rest = hex(id(LAYER)), f"{id(LAYER):x}", str(id(LAYER)), id(LAYER) % 7, id(Shared) // 3, -id(Shared)
    return x + 1, same, rest, id(None) % 10, bool(id(x)), int(id(Shared))


def test_identity_numbers_that_change_between_calls():
    class Holder:
        pass

    holder = Holder()
    compiled = dl.compile(lambda x: (x + 1, id(holder.held) % 1000003), backend="eager")
    kept = []
    for _ in range(3):
        holder.held = Holder()
        kept.append(holder.held)
        assert compiled(tensor(2))[1] == id(holder.held) % 1000003


@checked(tensor(2))
def test_sets_of_one_tensor(x):
    y = x + 1
    found = {y}
    other = {x}
    return found.pop() * 2, len(found), [each + 1 for each in other], y in other


# -- constants: which of equal ones is which object -----------------------------------------------------------------


def _constants_of_code(x, n):
    def made():
        return 1.5, "x y", (3, 4), 100000

    one = made()
    number, text, pair, large = one
    dl.graph_break()
    return x + 1, one is made(), number is 1.5, text is "x y", pair is (3, 4), large is 100000  # noqa: F632


def _tuple_of_constants(x, n):
    one, other = (1.5, "a b"), (1.5, "a b")
    dl.graph_break()
    return x + 1, one is other, one is (1.5, "a b"), one[0] is 1.5, one is (n, "a b")  # noqa: F632


@pytest.mark.parametrize("fn", [_constants_of_code, _tuple_of_constants])
def test_equal_constants_are_objects_of_their_own(fn):
    check(fn, tensor(2), 12, graphs=None)


def test_results_that_are_not_numbers():
    def fn(x, n, held):
        one, other = float("inf") * n, float("inf") * n
        return x + 1, [one, one, other], held[0]

    given = [float("nan")]
    for run in (fn, dl.compile(fn, backend="eager")):
        (_, (one, same, other), kept), (_, again, _) = run(tensor(2), 0, given), run(tensor(2), 0, given)
        assert one is same and one is not other and [one, same, other] != again and kept is given[0]


class Named:
    def __init__(self):
        self.name = "some text"
        self.other = "".join(["some", " text"])
        self.large = 10**6


def test_equal_constants_in_a_pre_existing_object():
    def fn(x, named):
        name, other, large = named.name, named.other, named.large
        dl.graph_break()
        return x + 1, name is other, name is named.name, other is named.other, large is named.large

    same = Named()
    same.other = same.name
    check(fn, tensor(2), Named(), others=[(tensor(2), same)], graphs=None)


@pytest.mark.parametrize("swapped", [False, True])
def test_the_namespace_of_an_object_beside_it(swapped):
    def fn(x, o, d):
        return x + 1, (o.__dict__ is d) if swapped else (d is o.__dict__), vars(o) == d

    thing, other = Thing(), Thing()
    thing.a = 1
    check(fn, tensor(2), thing, thing.__dict__, graphs=None, others=[(tensor(2), thing, other.__dict__)])


def test_a_copy_of_a_namespace():
    def fn(x, o):
        copied = copy.deepcopy(vars(o))
        return x + 1, copied is vars(o), copied

    thing = Thing()
    thing.a = 1
    check(without_breaks(fn), tensor(2), thing)


Fields = collections.namedtuple("Fields", "a b")


@checked(tensor(3), (1, tensor(2)), 1, graphs=None, breaks=None)
def test_tuples_that_operators_return_as_they_are(x, given, n):
    found = []
    for each in ((x, 1), given, Pair((x, 1)), Fields(x, 2), x.shape, ()):
        found += [each * 1 is each, 1 * each is each, each * n is each, each + () is each, tuple(each) is each]
        found += [each[:] is each, each[0:] is each, each[:9] is each, each[::1] is each, each[::-1] is each]
    return x + 1, found, () + given is given, given[1:][::-1]
