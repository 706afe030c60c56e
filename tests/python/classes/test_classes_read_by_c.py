"""Classes over builtin ones as data of tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, tensor


class Items(list):
    pass


class Sizes(tuple):
    pass


class Pair(NamedTuple):
    a: Any
    b: Any


class Hiding(list):
    def __iter__(self):
        return iter([5, 6])


class Counting(list):
    def __len__(self):
        return 1


@checked(tensor(2))
def test_data_of_tensors(x):
    nested = torch.tensor([Pair(1, 2), Sizes((3, 4))])
    return x + torch.tensor(Items([1, 2])), x.new_tensor(Sizes((1, 2))), nested, torch.as_tensor(Pair(1.5, 2))


@pytest.mark.parametrize("kind", [Hiding, Counting])
@pytest.mark.parametrize("make", [torch.tensor, lambda data: torch.ones(1).new_tensor([data, data])])
def test_data_that_torch_reads_by_methods(kind, make):
    check(lambda x: (x + 1, make(kind([1, 2]))), tensor(2), graphs=None)


@pytest.mark.parametrize("kind", [list, tuple, Items, Sizes])
def test_results_of_functions_of_tensors_in_a_sequence(kind):
    def fn(x, y):
        made = torch.meshgrid(kind([x, y]), indexing="ij")
        return type(made), made

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    assert compiled(tensor(2), tensor(2))[0] is fn(tensor(2), tensor(2))[0] is tuple
