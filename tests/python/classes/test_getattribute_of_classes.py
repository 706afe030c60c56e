"""How often ``__getattribute__`` of a class over a builtin one runs: as often as CPython itself reads attributes."""

from __future__ import annotations

import copy
from collections import defaultdict, deque

import pytest
import torch

import dynamo_lite as dl
from programs import check, tensor

READ: list[str] = []


class Dot(dict):
    def __getattribute__(self, name):
        READ.append(name)
        return super().__getattribute__(name)


class Parts(complex):
    def __eq__(self, other):
        return super().__eq__(other)

    __hash__ = complex.__hash__


class Measured(deque):
    def __len__(self):
        READ.append("len")
        return super().__len__()


class Stored(defaultdict):
    def __setitem__(self, key, value):
        READ.append(f"set {key}")
        super().__setitem__(key, value)


def pop_of_a_missing_key(made):
    try:
        return made.pop("z")
    except KeyError as error:
        return error.args


OPERATIONS = {
    "copy": copy.copy,
    "vars": vars,
    "__dict__": lambda made: made.__dict__,
    "dict.copy": lambda made: made.copy(),
    "union": lambda made: made | Dot(b=2),
    "isinstance": lambda made: (isinstance(made, dict), isinstance(made, (int, dict)), isinstance(made, list)),
    "a method that is called after a break": lambda made: (made.pop, dl.graph_break())[0]("a"),
    "pop": pop_of_a_missing_key,
}


def reads(fn, *args) -> tuple[object, list[str]]:
    READ.clear()
    return fn(*args), [*READ]


@pytest.mark.changes_what_is_guarded  # the first copy stores the names of slots on the class
@pytest.mark.parametrize("is_created", [True, False], ids=["created", "existing"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_attributes_are_read_as_often_as_by_cpython(name, is_created):
    operation = OPERATIONS[name]

    def fn(x, existing):
        made = Dot(a=1) if is_created else existing
        y = x + 1
        return y * 2, operation(made)

    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        (wanted, expected), in_eager = reads(fn, tensor(3), Dot(a=1))
        (found, result), in_compiled = reads(compiled, tensor(3), Dot(a=1))
        assert torch.equal(found, wanted) and in_compiled == in_eager
        assert result == expected and type(result) is type(expected)


def test_parts_of_a_created_complex_number():
    def fn(x):
        made = Parts(1, 2)
        return x * made.real, made.imag, made

    check(fn, tensor(3))


def test_negative_indices_of_a_deque_count_by_the_classs_own_length():
    def fn(x, given):
        last, first = given[-1], given[0]
        given[-2] = 5
        del given[-3]
        try:
            given[-9]
        except IndexError as error:
            return x + last, first, error.args, list(given)

    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        wanted, found = (reads(each, torch.zeros(1), Measured([1, 2, 3])) for each in (fn, compiled))
        assert wanted == found and "len" in found[1]


def test_a_missing_item_is_stored_as_cpython_does():
    def fn(x, given):
        return x + given["n"]

    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        assert reads(fn, torch.zeros(1), Stored(int)) == reads(compiled, torch.zeros(1), Stored(int))
