"""How function modes are entered and left, and what they may do while they are asked."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode, _get_current_function_mode_stack

from modes import Log, Refuse, Scale
from programs import check, tensor


class NoGrad(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        with torch.no_grad():
            return func(*args, **(kwargs or {}))


class Entering(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.on = 0

    def __enter__(self):
        self.on += 1
        return super().__enter__()

    def __exit__(self, *e):
        self.on -= 1
        return super().__exit__(*e)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class ByClass(TorchFunctionMode):
    n = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.n += 1
        return func(*args, **(kwargs or {}))


class Finally(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.log = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        try:
            if func is torch.cos:
                raise RuntimeError("cos")
            return func(*args, **(kwargs or {}))
        finally:
            self.log.append(func.__name__)


class Structure(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return [func, func(*args, **(kwargs or {}))]


def no_grad_inside(x, p):
    with NoGrad():
        y = p * x
    return y, p * x


def entered_by_its_own_method(x, p):
    m = Entering()
    with m:
        y = x.sin()
        on = m.on
    return y, on, m.on


def by_class(x, p):
    with ByClass():
        y = x.sin().cos()
    return y


def finally_while_raising(x, p):
    m = Finally()
    try:
        with m:
            y = x.sin()
            y = torch.cos(y)
    except RuntimeError as e:
        y = str(e)
    return y, m.log, x + 1


def another_structure(x, p):
    with Structure():
        y = torch.sin(x)
    return y[1], y[0] is torch.sin


def exit_stack(x, p):
    with contextlib.ExitStack() as s:
        s.enter_context(Scale(2.0))
        s.enter_context(Scale(3.0))
        y = torch.sin(x)
    return y, torch.sin(x)


def asked_for_the_current_one(x, p):
    with Scale(2.0) as a, Scale(3.0) as b:
        c = _get_current_function_mode() is b
        d = len(_get_current_function_mode_stack())
        y = torch.sin(x)
    return y, c, d, _get_current_function_mode()


def in_a_generator(x, p):
    def g():
        with Scale(2.0):
            yield torch.sin(x)
            yield torch.sin(x)

    it = g()
    a = next(it)
    b = torch.sin(x)
    c = next(it)
    d = next(it, None)
    e = torch.sin(x)
    return a, b, c, d, e


def the_same_twice(x, p):
    m = Scale(2.0)
    with m:
        with m:
            y = torch.sin(x)
        z = torch.sin(x)
    return y, z


def left_in_another_order(x, p):
    a = Scale(2.0)
    b = Scale(3.0)
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    y = torch.sin(x)
    b.__exit__(None, None, None)
    return y, torch.sin(x)


def helper_enter(m):
    m.__enter__()


def helper_exit(m):
    m.__exit__(None, None, None)


def by_helpers(x, p):
    m = Scale(2.0)
    helper_enter(m)
    y = torch.sin(x)
    helper_exit(m)
    return y, torch.sin(x)


def in_place(x, p):
    with Log() as log:
        x.add_(1)
        x[0] = 2
        x.mul_(x)
    return x, log.seen


def comprehensions(x, p):
    with Scale(2.0):
        y = [torch.sin(x) * i for i in range(3)]
        z = {i: torch.sin(x) for i in range(2)}
    return y, z


def returned_from(x, p):
    with Scale(2.0):
        return torch.sin(x)


def in_a_loop(x, p):
    for i in range(3):
        with Scale(float(i)):
            if i == 1:
                continue
            x = torch.sin(x)
    return x


def decorated(x, p):
    def deco(f):
        def w(*a):
            with Scale(4.0):
                return f(*a)

        return w

    @deco
    def f(y):
        return torch.sin(y)

    return f(x)


class Suppresses(Scale):
    def __exit__(self, *e):
        super().__exit__(*e)
        return True


def suppressing(x, p):
    with Suppresses(2.0):
        y = torch.sin(x)
        raise ValueError("x")
    return y, torch.sin(x)


def raised_through_two(x, p):
    try:
        with Scale(2.0):
            with Refuse():
                torch.sin(x)
    except ValueError:
        pass
    return torch.sin(x)


def asked_by_another(x, p):
    with Log() as log:
        with Scale(2.0) as s:
            y = torch.sin(x)
    return y, log.seen


def gradients(x, p):
    with Scale(2.0):
        y = torch.sin(p * x).sum()
    return y


def what_it_is(x, p):
    m = Scale(2.0)
    with m:
        y = torch.sin(x)
    return m.factor, type(m).__name__, y


def dropped_seed(x, p):
    with torch.random.fork_rng(devices=[]), Scale(2.0):
        y = torch.rand(3)
    return y


def random_numbers(x, p):
    with Log() as log:
        y = torch.rand(3)
        z = torch.nn.functional.dropout(x, 0.5)
    return y, z, log.seen


def facts_of_classes(x, p):
    with Log() as log:
        y = isinstance(x, torch.Tensor), isinstance(p, nn.Parameter), torch.is_tensor(x), type(x), callable(x)
    return y, log.seen, x + 1


def grad_mode_set(x, p):
    with Log() as log:
        torch.set_grad_enabled(False)
        y = p * x
        torch.set_grad_enabled(True)
        z = p * x
    return y, z, log.seen


def grad_mode_by_a_decorator(x, p):
    @torch.no_grad()
    def f(a):
        return p * a

    with Log() as log:
        y = f(x)
    return y, log.seen


class OtherKeywords(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        kwargs.pop("alpha", None)
        kwargs["out"] = None
        if func is torch.add:
            return func(*args, **kwargs)
        return func(*args)


def other_keyword_arguments(x, p):
    with OtherKeywords():
        return torch.add(x, 1, alpha=3)


def shapes(x, p):
    with Log() as log:
        b, c = x.shape
        y = x.view(c, b).reshape(-1)[: b * c - 1]
    return y, log.seen


PROGRAMS = [
    no_grad_inside,
    entered_by_its_own_method,
    by_class,
    finally_while_raising,
    another_structure,
    exit_stack,
    asked_for_the_current_one,
    in_a_generator,
    the_same_twice,
    left_in_another_order,
    by_helpers,
    in_place,
    comprehensions,
    returned_from,
    in_a_loop,
    decorated,
    suppressing,
    raised_through_two,
    asked_by_another,
    gradients,
    what_it_is,
    dropped_seed,
    random_numbers,
    facts_of_classes,
    grad_mode_set,
    grad_mode_by_a_decorator,
    other_keyword_arguments,
    shapes,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_program(program):
    parameter = nn.Parameter(torch.ones(3))

    def fn(x):
        found = program(x, parameter)
        return found, torch.is_grad_enabled(), torch._C._len_torch_function_stack()

    calls = 1 if program is suppressing else 2  # a class defined inside is another one in each call
    check(fn, tensor(2, 3), graphs=None, breaks=None, calls=calls)
