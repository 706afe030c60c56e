"""Operators whose left operand is a number in C, and whose right one is of a class that derives from a number."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pytest
import torch

import dynamo_lite as dl
from programs import check, tensor

CALLS: list[str] = []


class Seconds(int):
    """An int with reflected methods of its own."""

    def __radd__(self, other):
        return "radd"

    def __rmul__(self, other):
        return "rmul"

    def __rsub__(self, other):
        return "rsub"

    def __hash__(self):
        CALLS.append("hash")
        return 3


class Meters(float):
    """A float with reflected methods of its own."""

    def __rmul__(self, other):
        return "rmul"

    def __rtruediv__(self, other):
        return "rtruediv"


class Word(str):
    """A str that isn't a mapping to ``%``."""


three, half, word = Seconds(3), Meters(0.5), Word("x")

OPERATORS = {
    "1.0 + three": lambda: 1.0 + three,
    "2.0 - three": lambda: 2.0 - three,
    "1.5 * three": lambda: 1.5 * three,
    "1j * half": lambda: 1j * half,
    "True + three": lambda: True + three,
    "1 + three": lambda: 1 + three,
    "1.0 / half": lambda: 1.0 / half,
    "[1, 2] * three": lambda: [1, 2] * three,
    "(1, 2) * three": lambda: (1, 2) * three,
    "'a' * three": lambda: "a" * three,
    "a duration * three": lambda: datetime.timedelta(1) * three,
    "a duration * half": lambda: datetime.timedelta(1) * half,
    "a Decimal + three": lambda: Decimal(1) + three,
    "a float64 + three": lambda: np.float64(2) + three,
    "an int64 * three": lambda: np.int64(2) * three,
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_which_operand_decides(operator):
    def fn(x):
        return x + 1, operator()

    check(fn, tensor(2), graphs=None)


def test_in_place_repetition_asks_the_number_first():
    def fn(x):
        items = [1]
        items *= three
        number = 1.5
        number *= three
        return x + 1, items, number

    check(fn, tensor(2))


def test_percent_of_a_string_class_counts_its_arguments():
    template = "none"

    def fn(x):
        try:
            return x, template % word
        except TypeError as error:
            return x + 1, str(error), "%s" % word

    check(fn, tensor(2))


def test_sets_of_numbers_with_hashes_of_their_own_run_none_while_tracing():
    kept = {three, 5}

    def fn(x):
        return x + len({1} | kept)

    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        CALLS.clear()
        wanted = fn(torch.ones(1))
        hashes = len(CALLS)
        CALLS.clear()
        assert torch.equal(compiled(torch.ones(1)), wanted) and len(CALLS) == hashes
