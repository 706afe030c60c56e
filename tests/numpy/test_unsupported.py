"""Arrays as arguments where torch takes a tensor: accepted ones are in the graph, others are refused as in eager."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import check, checked, tensor

ARRAY = np.arange(3, dtype=np.float32)

REFUSED = {
    "an operand": lambda x, array: torch.add(x, array),
    "the only one": lambda x, array: torch.sin(array),
    "in a list": lambda x, array: torch.stack([x, array]),
    "by name": lambda x, array: x.clamp(max=array),
    "of a method": lambda x, array: x.expand_as(array),
    "of nn.functional": lambda x, array: F.linear(array, torch.ones(3, 3)),
    "of an alternative": lambda x, array: torch.where(x > 0, x, array),
    "of a namespace": lambda x, array: torch.linalg.norm(array),
    "one that is made like it": lambda x, array: torch.zeros_like(array),
    "counted": lambda x, array: torch.numel(array),
    "made inside": lambda x, array: torch.maximum(x, np.sin(array)),
}


@pytest.mark.parametrize("called", REFUSED.values(), ids=REFUSED)
def test_refused(called):
    def fn(x, array):
        y = x + 1
        try:
            return called(y, array)
        except TypeError as error:
            return y, str(error).split("\n")[0]

    check(fn, tensor(3), ARRAY, graphs=None)


@checked(tensor(3), ARRAY, graphs=None)
def test_refused_in_a_write(x, array):
    y = x + 1
    try:
        y[:] = array
    except TypeError as error:
        return y, str(error)
    return y


@checked(tensor(3, 3), ARRAY)
def test_indices(x, array):
    rows = array.astype(np.int64)
    y = x[rows] + x[rows, 0] + x[1, rows]
    y[rows] = 3
    return y, x[None, rows]


@checked(tensor(3, 3), np.arange(3), graphs=None)
def test_indices_that_go_backwards(x, array):
    return x[array[::-1]], x[:, array[::-1]]


@checked(tensor(3), deque([0, 1]), graphs=None, others=[(tensor(4), deque([2, 1, 0]))])
def test_a_deque_as_indices(x, rows):
    return (x + 1)[rows]


def test_reason_of_a_result_that_would_differ():
    def fn(x):
        return torch.from_numpy(np.sign(x.numpy())) + 1

    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))
    assert caught.value.reason.code == "DL0222" and "torch's version gives" in str(caught.value)


def test_reason_of_a_write():
    def fn(x):
        array = x.numpy()
        array[[0, 1]] = np.ones(2, np.float32)
        return x + 1

    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))
    assert caught.value.reason.code == "DL0215"
