"""Checks of kind ``symbolic`` and ``tensor_of_any_size``: programs on sizes and integers, and what they refuse."""

import itertools

import pytest
import torch

from guard_probe import probe


def values(p):
    """The nodes of the items of the tuple that is asked about."""
    return [p.at(("tuple_item", at)) for at in range(3)]


def holds(program, x, y, n):
    answers = []

    def look(p):
        p.demand(0, "symbolic", (values(p), program))
        answers.append(p.holds())

    probe((x, y, n), look)
    return answers[0]


X, Y = torch.zeros(4, 6), torch.zeros(6, 3)[:, 1:]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ([("size", 0, 0), ("const", 4), ("eq",)], True),
        ([("size", 0, 1), ("size", 1, 0), ("eq",)], True),
        ([("size", 0, 0), ("size", 1, 0), ("eq",)], False),
        ([("stride", 1, 0), ("const", 3), ("eq",)], True),
        ([("offset", 1), ("const", 1), ("eq",)], True),
        ([("int", 2), ("const", -7), ("eq",)], True),
        ([("int", 2), ("const", 3), ("floordiv",), ("const", -3), ("eq",)], True),
        ([("int", 2), ("const", 3), ("mod",), ("const", 2), ("eq",)], True),
        ([("size", 0, 0), ("const", 2), ("pow",), ("const", 16), ("eq",)], True),
        ([("int", 2), ("size", 0, 0), ("max",), ("const", 4), ("eq",)], True),
        ([("int", 2), ("size", 0, 0), ("min",), ("const", -7), ("eq",)], True),
        ([("size", 0, 0), ("const", 5), ("lt",), ("int", 2), ("const", 0), ("le",), ("and",)], True),
        ([("size", 0, 0), ("const", 5), ("eq",), ("not",)], True),
        ([("size", 0, 0), ("const", 5), ("eq",), ("int", 2), ("const", 0), ("ne",), ("or",)], True),
        ([("int", 2), ("const", 0), ("floordiv",)], False),
        ([("const", 2**62), ("const", 2), ("mul",)], False),
        ([("const", 2**62), ("const", 2**62), ("add",)], False),
        ([("size", 0, 5), ("const", 4), ("eq",)], False),
        ([("size", 2, 0), ("const", 4), ("eq",)], False),
        ([("int", 0), ("const", 4), ("eq",)], False),
    ],
)
def test_programs(program, expected):
    assert holds(program, X, Y, -7) is expected


def test_integers_out_of_range_do_not_hold():
    program = [("int", 2), ("const", 0), ("ne",)]
    assert holds(program, X, Y, 2**63 - 1)
    assert not holds(program, X, Y, 2**63)


def test_division_and_remainder_are_pythons():
    for left, right in itertools.product(range(-7, 8), (-3, -2, 2, 3, 5)):
        for name, value in (("floordiv", left // right), ("mod", left % right)):
            assert holds([("int", 2), ("const", right), (name,), ("const", value), ("eq",)], X, Y, left)


@pytest.mark.parametrize(
    "program",
    [
        [],
        [("size", 0, 0), ("size", 0, 1)],
        [("add",)],
        [("const", 1), ("add",)],
        [("nothing", 1)],
        [("size", 0)],
        [("size", 9, 0)],
        [("size", -1, 0)],
        [("const", 2**70)],
        [("const", "a")],
        ["const"],
        [()],
        [("const", 1)] * 80,
    ],
)
def test_what_is_no_program(program):
    with pytest.raises((ValueError, TypeError)):
        holds(program, X, Y, 1)


def test_failure_says_the_numbers():
    def look(p):
        p.demand(0, "symbolic", (values(p), [("size", 0, 0), ("int", 2), ("eq",)]))
        failure = p.failure()
        assert failure.found == "4, 9" and failure.kind == "symbolic"

    probe((X, Y, 9), look)


def test_sizes_are_read_anew_each_time():
    x = torch.zeros(2, 2)

    def look(p):
        p.demand(0, "symbolic", (values(p), [("size", 0, 0), ("const", 4), ("le",)]))
        assert p.holds()
        x.resize_(9, 2)
        assert not p.holds()
        x.resize_(3, 2)
        assert p.holds()

    probe((x, Y, 1), look)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (torch.zeros(9, 6), True),
        (torch.zeros(4, 7), False),
        (torch.zeros(4, 6, dtype=torch.float64), False),
        (torch.zeros(4, 6, requires_grad=True), False),
        (torch.zeros(6, 9).t(), False),
        (torch.zeros(4, 6, 1), False),
        (torch.zeros(9, 8)[:, :6], True),
        (3, False),
    ],
)
def test_free_dimensions(other, expected):
    def look(p):
        p.demand(p.at(), "tensor_of_any_size", (X, (0,), (0,)))
        assert p.holds() is expected

    probe(other, look)


def test_free_dimensions_in_words():
    def look(p):
        p.demand(p.at(), "tensor_of_any_size", (X, (0,), (0,)))
        failure = p.failure()
        assert "size (4, 7) instead of (any, 6)" in failure.found and "size (any, 6)" in failure.expected

    probe(torch.zeros(4, 7), look)


@pytest.mark.parametrize("arg", [X, (X,), (X, (0,)), (X, (5,), ()), (X, (), (-1,)), (X, 0, 0), (3, (0,), ())])
def test_free_dimensions_of_what(arg):
    def look(p):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            p.demand(p.at(), "tensor_of_any_size", arg)

    probe(X, look)
