"""Checks of kind ``symbolic`` and ``tensor_of_any_size``: valid and invalid programs over sizes and integers."""

import itertools
import math
import operator
import struct

import pytest
import torch

from guard_probe import probe, probed


def values(p):
    """Returns the nodes of the items of the guarded tuple."""
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
def test_programs_compute_the_expected_truth(program, expected):
    assert holds(program, X, Y, -7) is expected


def holds_float(program, x):
    answers = []

    def look(p):
        p.demand(0, "symbolic", ([p.at()], program))
        answers.append(p.holds())

    probe(x, look)
    return answers[0]


FLOATS = [0.1, 1 / 3, -2.5, 2.5, 3.5, -0.5, 7.0, 1e300, -1e-300, 0.0, -0.0, math.inf, -math.inf, math.nan]
OF_TWO = {f"float_{name}": getattr(operator, name) for name in ("add", "sub", "mul", "pow")}
OF_TWO["float_div"] = operator.truediv
OF_ONE = {name: getattr(math, name) for name in ("sqrt", "exp", "log", "sin", "cos", "log2", "log10")}
TO_INTEGER = {"trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "round": round}


def python(function, *args):
    """Returns what Python computes, or None if it raises."""
    try:
        found = function(*args)
    except (ArithmeticError, ValueError):
        return None
    return None if isinstance(found, complex) else found


@pytest.mark.parametrize("name", OF_TWO)
def test_floats_are_computed_as_python_does(name):
    for x, other in itertools.product(FLOATS, FLOATS):
        expected = python(OF_TWO[name], x, other)
        numbers = (x, other, math.nan if expected is None else expected)
        if name == "float_pow" and not (x > 0 and all(map(math.isfinite, numbers))):
            expected = None  # of others the result may be complex, or an error
        computed = [("float", 0), ("float_const", other), (name,)]
        if expected is not None and math.isnan(expected):
            assert holds_float([*computed, *computed, ("float_eq",), ("not",)], x)
        else:
            program = [*computed, ("float_const", 0.0 if expected is None else expected), ("eq",)]
            assert holds_float(program, x) is (expected is not None)


@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_floats(name):
    for x in FLOATS:
        expected = python(OF_ONE[name], x)
        known = expected is not None and math.isfinite(expected)
        assert holds_float([("float", 0), (name,), ("float_const", expected or 0.0), ("float_eq",)], x) is known


@pytest.mark.parametrize("name", TO_INTEGER)
def test_integers_of_floats(name):
    for x in FLOATS:
        expected = python(TO_INTEGER[name], x)
        known = expected is not None and abs(expected) < 2**62
        program = [("float", 0), (name,), ("const", expected if known else 0), ("eq",)]
        assert holds_float(program, x) is known


@pytest.mark.parametrize(
    ("name", "function"), [("bit_and", operator.and_), ("bit_or", operator.or_), ("bit_xor", operator.xor)]
)
def test_bit_operators_of_integers(name, function):
    numbers = [0, 1, -1, 4, 6, -6, 35, 2**40, 3**33, -(2**53), 2**53]
    for x, other in itertools.product(numbers, numbers):
        program = [("float", 0), ("float_const", float(other)), (name,), ("const", function(x, other)), ("eq",)]
        assert holds_float(program, float(x))
    assert not holds_float([("float", 0), ("float_const", 1.0), (name,), ("const", 0), ("eq",)], 2.0**54)


def test_bit_length_of_integers():
    for x in (0, 1, -1, 2, 6, 17, 18, 19, -300, 255, 256, 3**33, -(2**53)):
        assert holds_float([("float", 0), ("bit_length",), ("const", x.bit_length()), ("eq",)], float(x))


@pytest.mark.parametrize(("name", "function"), [("min", min), ("max", max)])
def test_least_and_greatest_of_floats(name, function):
    for x, other in itertools.product(FLOATS, FLOATS):
        program = [("float", 0), ("float_const", other), ("float_" + name,)]
        assert holds_float([*program, ("float_const", function(x, other)), ("eq",)], x)


@pytest.mark.parametrize(("name", "function"), [("eq", operator.eq), ("lt", operator.lt), ("le", operator.le)])
def test_comparisons_of_floats(name, function):
    for x, other in itertools.product(FLOATS, FLOATS):
        program = [("float", 0), ("float_const", other), ("float_" + name,)]
        assert holds_float(program, x) is function(x, other)
        assert holds_float([*program, ("not",)], x) is not function(x, other)


def test_floats_are_compared_bit_for_bit():
    for x, other in itertools.product(FLOATS, FLOATS):
        same = struct.pack("d", x) == struct.pack("d", other)
        assert holds_float([("float", 0), ("float_const", other), ("eq",)], x) is same


def test_signs_and_infinities():
    for x in FLOATS:
        assert holds_float([("float", 0), ("finite",)], x) is math.isfinite(x)
        assert holds_float([("float", 0), ("float_neg",), ("float_const", -x), ("eq",)], x)
        assert math.isnan(x) or holds_float([("float", 0), ("float_abs",), ("float_const", abs(x)), ("eq",)], x)


@pytest.mark.parametrize(("n", "expected"), [(3, True), (2**53, True), (-(2**53), True), (2**53 + 1, False)])
def test_floats_of_integers(n, expected):
    assert holds_float([("int", 0), ("float_of",), ("float_const", float(n)), ("eq",)], n) is expected


@pytest.mark.parametrize("x", [3, True, "0.5", torch.tensor(0.5), type("Rate", (float,), {})(0.5)])
def test_values_that_are_not_floats_fail(x):
    assert not holds_float([("float", 0), ("finite",)], x)


@probed(0.1)
def test_failure_shows_the_values_of_floats(p, _):
    p.demand(0, "symbolic", ([p.at()], [("float", 0), ("float_const", 0.5), ("eq",)]))
    assert p.failure().value == (0.1,)


def test_integers_out_of_range_fail():
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
        [("const", 0.5)],
        [("float_const", 1)],
        [("float_const", 1.0), ("float_add",)],
        ["const"],
        [()],
        [("const", 1)] * 80,
    ],
)
def test_invalid_programs_are_refused(program):
    with pytest.raises((ValueError, TypeError)):
        holds(program, X, Y, 1)


@probed((X, Y, 9))
def test_failure_shows_the_values_of_numbers(p, _):
    p.demand(0, "symbolic", (values(p), [("size", 0, 0), ("int", 2), ("eq",)]))
    failure = p.failure()
    assert failure.value == (4, 9) and failure.kind == "symbolic"


@probed((torch.zeros(2, 2), Y, 1))
def test_sizes_are_read_again_at_every_check(p, given):
    x = given[0]
    p.demand(0, "symbolic", (values(p), [("size", 0, 0), ("const", 4), ("le",)]))
    assert p.holds()
    x.resize_(9, 2)
    assert not p.holds()
    x.resize_(3, 2)
    assert p.holds()


@probed(torch.zeros(4, 6))
def test_programs_that_share_numbers(p, x):
    product = [("size", 0, 0), ("size", 0, 1), ("mul",)]
    at = [p.at()]
    p.demand(0, "symbolic", (at, [*product, ("const", 24), ("eq",)]))
    p.demand(0, "symbolic", (at, [("size", 0, 0), ("const", 3), ("le",), ("not",)]))
    p.demand(0, "symbolic", (at, product))
    p.demand(0, "symbolic", (at, [*product, ("const", 24), ("eq",), ("not",), ("not",)]))
    for shape, found in [
        ((4, 6), None),
        ((6, 4), None),
        ((4, 6), None),
        ((2, 12), (2,)),
        ((4, 5), (4, 5)),
        ((6, 4), None),
    ]:
        x.resize_(shape)
        for _ in range(3):
            assert p.holds() is (found is None)
        if found is not None:
            assert p.failure().value == found


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
def test_free_dimensions_may_have_any_size(other, expected):
    def look(p):
        p.demand(p.at(), "tensor_of_any_size", (X, (0,), (0,)))
        assert p.holds() is expected

    probe(other, look)


@probed(torch.zeros(4, 7))
def test_failure_shows_free_dimensions_as_any(p, _):
    p.demand(p.at(), "tensor_of_any_size", (X, (0,), (0,)))
    assert p.failure().differences[0] == ("size", (4, 7), (None, 6))


@pytest.mark.parametrize("arg", [X, (X,), (X, (0,)), (X, (5,), ()), (X, (), (-1,)), (X, 0, 0), (3, (0,), ())])
def test_invalid_arguments_of_free_dimensions_are_refused(arg):
    def look(p):
        with pytest.raises((TypeError, ValueError, OverflowError)):
            p.demand(p.at(), "tensor_of_any_size", arg)

    probe(X, look)
