"""Constants in a graph's nodes: the graph computes with the same values, of the same types."""

from __future__ import annotations

import enum
import math
from collections import namedtuple

import numpy
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl

COMPLEX = [complex(-1, -0.0), complex(-0.0, 1), -1j, complex(0, math.inf), complex(1, math.nan), complex(-math.inf, 0)]
SEEN: list[object] = []


@dl.allow_in_graph
def seen(x, *args, **kwargs):
    SEEN[:] = [*args, *kwargs.items()]
    return x + 1


Pair = namedtuple("Pair", "first second")
Level = enum.IntEnum("Level", "LOW HIGH")
Flags = enum.IntFlag("Flags", "READ WRITE")


class Words(list):
    pass


class Mode(enum.StrEnum):
    FAST = "fast"


def texts(tensor):
    return [repr(value) for value in tensor.flatten().tolist()]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("number", COMPLEX, ids=repr)
def test_complex_numbers_keep_their_parts(number, backend):
    def step(x):
        return x * number, torch.full((2,), number), checkpoint(lambda y: y * number, x, use_reentrant=False)

    x = torch.tensor([1.0, -2.0])
    found = dl.compile(step, backend=backend, fullgraph=True)(x)
    assert list(map(texts, found)) == list(map(texts, step(x)))


@pytest.mark.parametrize(
    "value",
    [
        *(torch.finfo(torch.float32), torch.iinfo(torch.int8), len, torch.add),
        *([complex(0, -0.0), math.inf], (len, (1, torch.add)), slice(1, 2), range(3), b"a", "q\"'", True, -0.0),
        *(torch.device("cpu"), torch.float32, torch.strided, ..., None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_function_in_the_graph_gets_the_value(value):
    def step(x):
        return seen(x, value, named=value)

    dl.compile(step, backend="eager", fullgraph=True)(torch.ones(2))
    assert [repr(each) for each in SEEN] == [repr(value), repr(("named", value))]
    assert type(SEEN[0]) is type(value)


def test_names_of_arguments_that_are_no_identifiers():
    def step(x):
        return x.clone().uniform_(**{"from": 3, "to": 3}), seen(x, 1, **{"class": 2, "two words": 3})

    x = torch.ones(2)
    found = dl.compile(step, backend="eager", fullgraph=True)(x)
    assert torch.equal(found[0], torch.full((2,), 3.0)) and [1, ("class", 2), ("two words", 3)] == SEEN


TYPED = {
    "size": lambda x: x.shape,
    "created size": lambda x: torch.Size([1, *x.shape]),
    "named tuple": lambda x: Pair(1, x.shape),
    "nested": lambda x: (1, [x.shape, Pair(x.shape, (Level.HIGH,))]),
    "int enum": lambda x: Level.HIGH,
    "flags": lambda x: Flags.READ,
    "str enum": lambda x: Mode.FAST,
    "numpy's": lambda x: numpy.float32(2),
}


def with_types(value):
    items = [with_types(each) for each in value] if isinstance(value, (list, tuple)) else repr(value)
    return type(value), items


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("make", TYPED.values(), ids=TYPED)
def test_a_function_in_the_graph_gets_the_exact_type(make, dynamic, backend):
    def step(x):
        return seen(x, make(x), named=make(x))

    x = torch.ones(2, 3)
    step(x)
    expected = with_types(SEEN)
    taken = []

    @dl.allow_in_graph
    def also_seen(x, *args, **kwargs):
        taken.append(with_types([*args, *kwargs.items()]))
        return x + 1

    def compiled(x):
        return also_seen(x, make(x), named=make(x))

    dl.compile(compiled, backend=backend, dynamic=dynamic, fullgraph=True)(x)
    for types in taken[-1:] if backend == "eager" else []:
        assert types == expected
    assert all(each[0] is list for each in taken) and taken


def test_a_named_tuple_of_tensors_is_an_argument_of_a_function_in_the_graph():
    def step(x):
        return seen(x, Pair(x * 2, 3))

    dl.compile(step, backend="eager", fullgraph=True)(torch.ones(2))
    (pair,) = SEEN
    assert type(pair) is Pair and pair.first.tolist() == [2, 2] and pair.second == 3


def test_a_list_of_a_users_class_breaks_the_graph_at_a_function_in_it():
    def step(x):
        words = Words()
        words.append("a")
        return seen(x + 1, words) * 2

    x = torch.ones(2)
    found = dl.explain(step)(x)
    assert torch.equal(found.result, step(x)) and type(SEEN[0]) is Words
    assert [each.reason.code for each in found.breaks] == ["DL0504"]
