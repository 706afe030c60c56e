"""Calls: every kind of argument, of callee and of binding."""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F

from programs import check, tensor


def affine(x, scale=2.0, *, shift=0.0):
    return x * scale + shift


def collect(first, *rest, key=None, **extra):
    return first, rest, key, extra


def test_positional_and_default():
    def fn(x):
        return affine(x), affine(x, 3.0)

    check(fn, tensor(3), graphs=1, operators=4)


def test_keywords():
    def fn(x):
        return affine(scale=4.0, x=x, shift=1.0)

    check(fn, tensor(3), graphs=1, operators=2)


def test_star_arguments():
    def fn(x, *args, **kwargs):
        return affine(x, *args, **kwargs)

    check(fn, tensor(3), 5.0, kwargs={"shift": 2.0}, graphs=1, operators=2)


def test_star_in_the_middle():
    def fn(x, items, table):
        return collect(x + 1, *items, 7, *(8, 9), key=3, **table, **{"z": 1})

    check(fn, tensor(2), [1, 2], {"a": 5}, graphs=1, operators=1)


def test_var_positional_and_var_keyword_arrive_as_tuple_and_dict():
    def inner(*args, **kwargs):
        kwargs["added"] = len(args)
        return args, kwargs

    def fn(x):
        return inner(x + 1, 2, a=x * 2)

    check(fn, tensor(2), graphs=1, operators=2)


def test_keyword_only_and_positional_only():
    def inner(a, /, b, *, c, d=4):
        return a + b * c - d

    def fn(x):
        return inner(x, 2, c=3) + inner(x, b=1, c=2, d=0)

    check(fn, tensor(3), graphs=1, operators=5)


def test_missing_argument_is_the_users_type_error():
    def inner(a, b):
        return a + b

    def fn(x):
        y = x + 1
        return inner(y)

    check(fn, tensor(2), graphs=None)


def test_unexpected_keyword_is_the_users_type_error():
    def fn(x):
        return affine(x, colour="red")

    check(fn, tensor(2), graphs=None)


def test_duplicate_keyword_is_the_users_type_error():
    def fn(x):
        return affine(x, **{"scale": 1.0}, scale=2.0)  # noqa: PIE804

    check(fn, tensor(2), graphs=None)


def test_nested_inlining():
    def a(x):
        return x + 1

    def b(x):
        return a(x) * 2

    def c(x):
        return b(a(x)) - 3

    check(c, tensor(3), graphs=1, operators=4)


def test_lambda_and_immediate_call():
    def fn(x):
        double = lambda v: v * 2  # noqa: E731
        return (lambda a, b=3: a + b)(double(x))

    check(fn, tensor(3), graphs=1, operators=2)


def test_higher_order_functions():
    def twice(f, v):
        return f(f(v))

    def fn(x):
        return twice(torch.sin, x) + twice(lambda v: v + 1, x)

    check(fn, tensor(3), graphs=1, operators=5)


def test_recursion_with_a_constant_depth():
    def power(x, n):
        if n == 0:
            return torch.ones_like(x)
        return x * power(x, n - 1)

    check(power, tensor(3), 4, graphs=1, operators=5)


def test_mutual_recursion():
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x, n):
        return -x if n == 0 else even(x * 2, n - 1)

    def fn(x):
        return even(x, 5)

    check(fn, tensor(3), graphs=1, operators=6)


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


def test_static_and_class_methods():
    class Ops:
        scale = 2

        @staticmethod
        def plus(x, y):
            return x + y

        @classmethod
        def times(cls, x):
            return x * cls.scale

    class Derived(Ops):
        scale = 5

    def fn(x):
        return Ops.plus(x, 1), Ops.times(x), Derived.times(x), Derived().plus(x, 2), Ops().times(x)

    check(fn, tensor(3), graphs=1, operators=5)


def test_callable_object():
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, x, times=1):
            return x + self.n * times

    adder = Adder(3)

    def fn(x):
        return adder(x) * adder(x, times=2)

    check(fn, tensor(3), graphs=1, operators=3)


def test_partial():
    def fn(x):
        triple = functools.partial(affine, scale=3.0)
        shifted = functools.partial(triple, shift=1.0)
        return triple(x), shifted(x), shifted(x, scale=5.0), functools.partial(torch.add, x)(1)

    check(fn, tensor(3), graphs=1, operators=7)


PARTIAL = functools.partial(affine, scale=7.0)


def test_global_partial():
    def fn(x):
        return PARTIAL(x, shift=2.0)

    check(fn, tensor(3), graphs=1, operators=2)


def test_partial_as_an_argument_and_its_attributes():
    def fn(x, p):
        return p(x), p.keywords["shift"], p.args, p.func is affine

    check(fn, tensor(3), functools.partial(affine, shift=2.0), graphs=1, operators=2)


def test_partialmethod():
    class Ops:
        def scale(self, x, by):
            return x * by

        double = functools.partialmethod(scale, by=2)

    def fn(o, x):
        return o.double(x)

    check(fn, Ops(), tensor(3), graphs=None)


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


def test_decorator_applied_inside():
    def fn(x):
        @doubled
        def local(v):
            return v + 1

        return local(x), local.__name__

    check(fn, tensor(3), graphs=1, operators=2)


def test_lru_cached_function_gives_the_same_answers():
    @functools.lru_cache
    def table(n):
        return n * 10

    def fn(x):
        return x + table(3) + table(3)

    check(fn, tensor(3), graphs=None)


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


def test_out_argument():
    def fn(x, out):
        torch.add(x, 1, out=out)
        return out * 2

    check(fn, tensor(3), torch.empty(3), graphs=None)


def test_default_arguments_that_are_mutable_are_shared():
    def inner(x, seen=[]):  # noqa: B006
        seen.append(len(seen))
        return x + len(seen), list(seen)

    def build():
        def fn(x):
            return inner(x)

        inner.__defaults__[0].clear()
        return fn

    check(build, tensor(2), build=True, graphs=1, operators=1, recompiles=True)


def test_getattr_of_callable_by_name():
    def fn(x, name):
        return getattr(torch, name)(x) + getattr(x, "cos")()  # noqa: B009

    check(fn, tensor(3), "sin", graphs=1, operators=3, others=[(tensor(3), "tan")], all_graphs=2)


def test_dictionary_of_functions():
    table = {"relu": F.relu, "tanh": torch.tanh, "own": lambda v: v * 0.5}

    def fn(x, name):
        return table[name](x) + table["own"](x)

    check(fn, tensor(3), "relu", graphs=1, operators=3, others=[(tensor(3), "tanh")], all_graphs=2)


def test_call_result_unused():
    def fn(x):
        affine(x)
        torch.sin(x)
        return x + 1

    check(fn, tensor(3), graphs=1)


def test_many_arguments():
    def inner(a, b, c, d, e, f, g, h, *rest, i=0, j=0, **more):
        return a + b + c + d + e + f + g + h + sum(rest) + i + j + sum(more.values())

    def fn(x):
        return inner(x, 1, 2, 3, 4, 5, 6, 7, 8, 9, i=10, j=11, k=12, m=13)

    check(fn, tensor(2), graphs=1, operators=11)


def test_function_attributes():
    def helper(x):
        helper.count = 5
        return x + 1

    def fn(x):
        y = helper(x)
        return y, helper.count, helper.__name__, helper.__doc__

    check(fn, tensor(2), graphs=None)


def test_exception_inside_inlined_callee_has_both_lines():
    def inner(x):
        y = x * 2
        raise ValueError("inner", y.shape[0])

    def fn(x):
        z = x + 1
        return inner(z)

    check(fn, tensor(2), graphs=None)


def test_kwargs_only_call_on_compiled_function():
    def fn(*, x, y=2):
        return x * y

    check(fn, kwargs={"x": tensor(3)}, graphs=1, operators=1)


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
