"""Constants in a graph's nodes: the graph computes with the same values, of the same types."""

from __future__ import annotations

import math

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
