"""Arithmetic, comparison and logic, on tensors, numbers and both."""

from __future__ import annotations

import pytest
import torch

from collector import Programs
from programs import check, ints, tensor

programs = Programs()


def functions(operators):
    """Returns, for each operator, a function that applies it."""
    return {each: eval(f"lambda a, b: a {each} b") for each in operators.split()}


BINARY, COMPARE, BITWISE = functions("+ - * / // % **"), functions("< <= == != > >="), functions("& | ^ << >>")


@pytest.mark.parametrize("name", [*BINARY, *COMPARE])
def test_tensors_and_numbers(name):
    fn = {**BINARY, **COMPARE}[name]

    def each(x, y):
        return fn(x, y), fn(x, 2), fn(3, x)

    check(each, tensor(3, 4).abs() + 1, tensor(3, 4, seed=1).abs() + 1, graphs=1, operators=3)


@pytest.mark.parametrize("name", BITWISE)
def test_bitwise(name):
    check(BITWISE[name], ints(3, 4), ints(3, 4, seed=1, high=5), graphs=1, operators=1)


@pytest.mark.parametrize("name", [*BINARY, *COMPARE, *BITWISE])
def test_numbers_are_folded(name):
    fn = {**BINARY, **COMPARE, **BITWISE}[name]

    def folded(x, a, b):
        return x + fn(a, b)

    check(folded, tensor(2), 7, 3, graphs=1, operators=1, others=[(tensor(2), 9, 2)], all_graphs=2)


@programs(tensor(3, 3), tensor(3, 3, seed=1) + 5, graphs=1, operators=6)
def matmul_and_reflected_operators(x, y):
    return x @ y, 2 - x, 1 / y, 2 // y, 5 % y, 2**x, [1, 2] + [3]


@programs(tensor(3), 5, torch.tensor([True, False]), graphs=1, operators=(3, 4))
def unary_operators(x, n, b):
    return -x, +x, ~b, abs(x), -n, +n, ~n, not n, abs(n)


@programs(tensor(3), 4, graphs=1, operators=5)
def augmented_assignment_of_numbers_and_tensors(x, n):
    y = x.clone()
    n += 2
    n *= 3
    n -= 1
    n //= 2
    n **= 2
    n %= 50
    n |= 1
    n &= 0xFF
    n ^= 3
    n <<= 1
    n >>= 1
    y += n
    y -= 1
    y *= 2
    y /= 4
    return y, n


@programs(tensor(2), [1, 2], graphs=1, operators=1)
def augmented_assignment_of_list_and_tuple(x, items):
    other = items
    items += [x + 1]
    pair = (1,)
    alias = pair
    pair += (2,)
    return items is other, pair is alias, pair, items


@programs(tensor(1), 0.1, 0.3, graphs=1, operators=1)
def float_arithmetic_is_exact(x, a, b):
    return x * 1, a + b, a / b, a * 1e308 * 10, -0.0 * a, (a - a) / (1.0), 0.1 + 0.2, round(a, 1), divmod(a, b)


@programs(tensor(2), graphs=None)
def type_error_is_the_users_exception(x):
    y = x * 2
    return y + "text"


@programs(tensor(1), graphs=1, operators=1)
def rich_comparison_of_containers(x):
    return (
        x + 1,
        [1, 2] == [1, 2],
        (1, 2) < (1, 3),
        [1] != [2],
        {1: 2} == {1: 2},
        {1, 2} <= {1, 2, 3},
        (1, "a") == (1, "a"),
        [3] > [2, 5],
    )


@programs(ints(3), tensor(3), torch.tensor([True, False, True]), graphs=1, operators=10)
def promotion_of_types(i, f, b):
    return i + 1.5, f + i, b + 1, i / 2, i // 2, f > 0, (f > 0) + i, b & (f > 0)


test_program = programs.test()
