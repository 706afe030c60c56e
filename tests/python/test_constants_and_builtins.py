"""Builtins, and constants that are equal but must be distinguished."""

from __future__ import annotations

import builtins
import math

import pytest
import torch

from collector import Programs
from programs import check, checked, tensor

programs = Programs()


@checked(tensor(3), divmod, 2, graphs=None)
@checked(tensor(3), round, graphs=None)
def test_builtins_that_tensors_do_not_define(x, builtin, *more):
    y = x + 1
    return builtin(y, *more)


@programs(torch.ones(2), torch.zeros(2), graphs=None, others=[(torch.zeros(2), torch.ones(2))])
def max_of_one_element_tensors(x, y):
    return max(x.sum(), y.sum()) + 1


@programs(torch.ones(2), graphs=None)
def any_and_all_of_tensors(x):
    return x + 1, any([x.sum() > 0, True]), all([x.sum() > -99, 1])


def test_id_and_identity_of_objects():
    def fn(x, a, b):
        same = id(a) == id(b)
        return x + (1 if same else 2), same, a is b

    shared = [1]
    check(fn, tensor(2), shared, shared, graphs=(1, 3), others=[(tensor(2), [1], [1])])


def test_builtins_of_a_function_are_its_own():
    source = "def fn(x):\n    return x + len([1, 2, 3])"
    own = {"__builtins__": {**vars(builtins), "len": lambda value: 100}}
    exec(source, own)
    check(own["fn"], tensor(2), breaks=(0, 1), operators=1)
    usual = {}
    exec(source, usual)
    check(usual["fn"], tensor(2), operators=1)


@pytest.mark.parametrize("values", [(0, False), (1, True), (0, 0.0), (0.0, -0.0), (1, 1.0), (2, 2 + 0j)])
def test_equal_constants_of_different_kind_are_told_apart(values):
    def fn(x, n):
        return x + 1, n, type(n), str(n), [n], (n, n)

    one, other = values
    check(fn, tensor(2), one, operators=1, others=[(tensor(2), other), (tensor(2), one)])


@pytest.mark.parametrize("values", [(0.0, -0.0), (float("nan"), 0.0), (1, True), (0, -0.0), (2**53, float(2**53))])
def test_equal_constants_in_containers_are_told_apart(values):
    def fn(x, items, table):
        return x * items[0], str(items[0]), str(table["k"]), f"{table['k']!r}"

    one, other = values
    check(fn, tensor(2), [one], {"k": one}, operators=1, others=[(tensor(2), [other], {"k": other})])


@programs(tensor(2), float("nan"), operators=1, others=[(tensor(2), 1.0), (tensor(2), float("nan"))], all_graphs=2)
def nan_is_itself(x, n):
    same = n == n  # noqa: PLR0124
    return x * 1, same, n is n, n in [n], n != n, math.isnan(n)  # noqa: PLR0124


@programs(torch.ones(2), 0.0, operators=1, others=[(torch.ones(2), -0.0)], all_graphs=2)
def signed_zero_in_arithmetic(x, z):
    return x / z, math.atan2(z, -1.0), z + 0, -z


@programs(tensor(2), {1: 5}, operators=1, others=[(tensor(2), {True: 5}), (tensor(2), {1.0: 5})])
def keys_that_are_equal_but_of_different_kind(x, table):
    return x + table[1], list(table), [type(k) for k in table]


@programs(tensor(2, dtype=torch.float64), 10**18, operators=1, others=[(tensor(2, dtype=torch.float64), 257)])
def big_and_interned_integers(x, n):
    return x + n, n is n, n + 1, n == 10**18  # noqa: PLR0124


def test_constants_of_every_kind_pass_through():
    def fn(x, *values):
        return x + 1, values

    constants = (
        None,
        ...,
        NotImplemented,
        "",
        b"",
        1j,
        True,
        10**30,
        -0.0,
        torch.float16,
        torch.device("cpu"),
        int,
        len,
    )
    check(fn, tensor(2), *constants, (1, (2, None)), frozenset({1}), slice(1, 2), range(3), torch.strided, operators=1)


@programs(tensor(2), "ab", operators=1, others=[(tensor(2), "".join(["a", "b"]))], all_graphs=1)
def strings_are_values(x, s):
    return x + len(s), s == "ab", s is s, s + "c", s[0], "a" in s  # noqa: PLR0124


CHOSEN = frozenset([torch.add, torch.Tensor.add, len, torch.nn.functional.relu.__class__])
TABLE = {torch.add: 2, torch.Tensor.add: 3, len: 5}


@programs(tensor(3), operators=2)
def functions_in_c_are_in_sets_and_tables(x):
    found = torch.add in CHOSEN, torch.mul in CHOSEN, torch.Tensor.add in CHOSEN, torch.Tensor.sub in CHOSEN
    return x * TABLE[torch.add] + TABLE[torch.Tensor.add], found, len in CHOSEN, TABLE.get(torch.sub)


@programs(tensor(3))
def attributes_in_c_are_objects(x):
    get = torch.Tensor.data.__get__
    return get(x) + 1, torch.Tensor.ndim.__get__(x), torch.Tensor.shape.__name__, get == torch.Tensor.data.__get__


test_program = programs.test()
