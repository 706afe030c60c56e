"""``types.MethodType`` of callables that aren't functions."""

from __future__ import annotations

import functools
import operator
import types

import pytest
import torch

from outcomes import outcome
from programs import check, tensor


class Row:
    def __init__(self, *items):
        self.items = items


class Called:
    def __call__(self, *args):
        return len(args), *args


class Descriptor(Called):
    def __get__(self, instance, owner):
        raise AssertionError("not by its __get__")


LINEAR, CALLED = torch.nn.Linear(3, 3), Called()


@pytest.mark.parametrize(
    "function",
    [
        *(torch.add, torch.Tensor.mul, operator.add, functools.partial(torch.add, alpha=2), CALLED, Descriptor()),
        *(CALLED.__call__, types.MethodType(Called(), 5), lambda x, by: x - by),
    ],
)
def test_a_method_of_any_callable_passes_its_receiver_first(function):
    def program(x):
        method = types.MethodType(function, x + 1)
        return method(3), method.__func__ is function

    check(program, tensor(3))


def test_methods_of_classes_modules_and_builtins():
    def program(x):
        length, text = types.MethodType(len, [1, 2]), types.MethodType(str.upper, "a")
        return types.MethodType(LINEAR, x)(), types.MethodType(Row, x)(2).items, length(), text(), length.__name__

    check(program, tensor(3))


def test_a_method_needs_a_callable_and_a_receiver():
    def program(x):
        return x + 1, outcome(types.MethodType, 3, x), outcome(types.MethodType, len, None)

    check(program, tensor(3))
