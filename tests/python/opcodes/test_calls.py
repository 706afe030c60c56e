"""Calls: every kind of argument, of callee and of binding."""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F

from programs import check, tensor


def affine(x, scale=2.0, *, shift=0.0):
    return x * scale + shift


def test_positional_and_default():
    def fn(x):
        return affine(x), affine(x, 3.0)

    check(fn, tensor(3), graphs=1, operators=4)


def test_keywords():
    def fn(x):
        return affine(scale=4.0, x=x, shift=1.0)

    check(fn, tensor(3), graphs=1, operators=2)


def test_missing_argument_is_the_users_type_error():
    def inner(a, b):
        return a + b

    def fn(x):
        y = x + 1
        return inner(y)

    check(fn, tensor(2), graphs=None)


def test_higher_order_functions():
    def twice(f, v):
        return f(f(v))

    def fn(x):
        return twice(torch.sin, x) + twice(lambda v: v + 1, x)

    check(fn, tensor(3), graphs=1, operators=5)


def test_bound_methods_and_unbound_functions():
    class Scaler:
        def __init__(self, factor):
            self.factor = factor

        def apply(self, x):
            return x * self.factor

    def fn(scaler, x):
        method = scaler.apply
        return method(x) + Scaler.apply(scaler, x) + scaler.apply(x=x)

    check(fn, Scaler(3.0), tensor(3), graphs=1, operators=5)


def test_partial():
    def fn(x):
        triple = functools.partial(affine, scale=3.0)
        shifted = functools.partial(triple, shift=1.0)
        return triple(x), shifted(x), shifted(x, scale=5.0), functools.partial(torch.add, x)(1)

    check(fn, tensor(3), graphs=1, operators=7)


def test_partial_as_an_argument_and_its_attributes():
    def fn(x, p):
        return p(x), p.keywords["shift"], p.args, p.func is affine

    check(fn, tensor(3), functools.partial(affine, shift=2.0), graphs=1, operators=2)


def doubled(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 2

    return wrapper


def scaled(by):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(x):
            return fn(x) * by

        return wrapper

    return decorate


@doubled
def decorated(x, y=1):
    return x + y


@scaled(3)
@scaled(by=4)
def decorated_twice(x):
    return x - 1


def test_decorated_functions():
    def fn(x):
        return (
            decorated(x),
            decorated(x, y=5),
            decorated_twice(x),
            decorated.__name__,
            decorated.__wrapped__ is not None,
        )

    check(fn, tensor(3), graphs=1, operators=7)


def test_pure_functions_of_the_standard_library():
    def fn(x, n):
        return x * math.sqrt(n) + math.prod([1, 2, 3]) - math.floor(2.7) + math.pi, math.gcd(12, 18), math.isnan(n)

    check(fn, tensor(3), 4.0, graphs=1, operators=4)


def test_functional_and_tensor_methods():
    def fn(x, w):
        y = F.linear(x, w)
        y = F.relu(y).view(-1).unsqueeze(0)
        return torch.cat([y, y], dim=0).sum(dim=1, keepdim=True)

    check(fn, tensor(2, 3), tensor(4, 3, seed=1), graphs=1, operators=6)


def test_getattr_of_callable_by_name():
    def fn(x, name):
        return getattr(torch, name)(x) + getattr(x, "cos")()  # noqa: B009

    check(fn, tensor(3), "sin", graphs=1, operators=3, others=[(tensor(3), "tan")], all_graphs=2)


def test_call_result_unused():
    def fn(x):
        affine(x)
        torch.sin(x)
        return x + 1

    check(fn, tensor(3), graphs=1)


def test_compiled_function_with_all_kinds_of_parameters():
    def fn(a, /, b, c=3, *args, d, e=5, **kwargs):
        return a + b + c + sum(args) + d + e + sum(kwargs.values()), args, kwargs

    check(fn, tensor(2), 1, 2, 4, 5, kwargs={"d": 6, "z": 7}, graphs=1, operators=6)
    check(fn, tensor(2), 1, kwargs={"d": 6}, graphs=1, operators=6)


def test_wrong_call_of_compiled_function_raises_as_in_eager():
    def fn(a, b):
        return a + b

    check(fn, tensor(2), graphs=0)
    check(fn, tensor(2), tensor(2), tensor(2), graphs=0)


class Asked:
    """Says how long it may be, and that it was asked."""

    def __init__(self, *items):
        self.items = items
        self.log = []

    def __iter__(self):
        self.log.append("iter")
        return iter(self.items)

    def __len__(self):
        self.log.append("len")
        return len(self.items)


def test_arguments_of_an_object_that_says_how_many_there_may_be():
    def add(*values):
        return sum(values)

    def fn(x):
        values = Asked(x, 1, x)
        return add(*values), add(1, *values), [*values], values.log

    check(fn, tensor(2))
