"""Classes over builtin ones as data of tensors, keys of dicts and values of enums."""

from __future__ import annotations

import enum
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


class Version(tuple):
    def __eq__(self, other):
        return isinstance(other, Version) and tuple.__eq__(self[:1], other[:1])

    __hash__ = tuple.__hash__


class Label(str):
    def __eq__(self, other):
        return str.lower(self) == str.lower(other)

    __hash__ = str.__hash__


@checked(tensor(2))
def test_keys_that_override_equality_alone(x):
    table = {Version((1, 2)): x + 1, Label("q"): 5}
    found = table[Version((1, 2))], table.get(Label("q")), table.get(Label("Q")), Version((1, 3)) in table
    return found, len({Version((1, 2)), Version((1, 2)), Version((3,))}), list(table)


class Named(str, enum.Enum):  # noqa: UP042
    RED = "red"
    BLUE = "blue"

    @classmethod
    def _missing_(cls, value):
        if value == "none":
            raise LookupError(f"select one of {list(cls._value2member_map_)}")
        return 7 if value == "odd" else next((each for each in cls if each.value == str(value).lower()), None)


class Level(enum.IntEnum):
    LOW = 1

    @classmethod
    def _missing_(cls, value):
        return cls.LOW


@checked(tensor(2))
def test_values_of_enums_that_no_member_has(x):
    outcomes = []
    for value in ("RED", "green", "none", "odd", "blue", None):
        try:
            outcomes.append(Named(value))
        except (ValueError, LookupError, TypeError) as error:
            context = error.__context__
            outcomes.append((type(error), str(error), type(context), str(context)))
    return x * Level(9), outcomes
