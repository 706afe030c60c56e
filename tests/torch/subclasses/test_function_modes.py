"""Function modes entered in compiled functions: the graph breaks, and the code under the mode runs in eager."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode,
    _get_current_function_mode_stack,
    handle_torch_function,
    has_torch_function,
)

import dynamo_lite as dl
from modes import Log, Refuse, Rewrite, Scale
from programs import check, checked, repeated, tensor, with_gradients
from weights import seeded


@checked(tensor(3), others=[(tensor(3, seed=1),)], graphs=None, breaks=None)
def test_nested_function_modes(x):
    with Scale(2.0):
        with Rewrite():
            y = torch.sin(torch.add(x, 2))
        z = torch.sin(torch.add(x, 2))
    with Scale(2.0), Scale(3.0) as inner:
        inner.factor = 5.0
        w = x.sin()
    return y, z, w


@checked(tensor(3), graphs=None, breaks=None)
def test_function_mode_that_raises(x):
    try:
        with Refuse():
            y = torch.sin(x)
    except ValueError as error:
        return x + 1, str(error)
    return y


def test_modules_under_a_mode():
    model = seeded(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 2)))

    def fn(x):
        log = Log()
        with log:
            y = model(x)
        return y, log.seen

    check(with_gradients(fn), tensor(4, 3), graphs=None, breaks=None)


def scaled(x, factor=1):
    """A function that can be overridden, as in a library."""
    if has_torch_function((x,)):
        return handle_torch_function(scaled, (x,), x, factor=factor)
    return x * factor


PARAMETER = nn.Parameter(torch.ones(3))
ASKED = {
    "negation": lambda x: -x,
    "reflected": lambda x: 1 - x,
    "names": lambda x: torch.add(input=x, other=1, alpha=2),
    "facts": lambda x: (x.shape, x.dtype, x.dim(), x.size(0), x.ndim, len(x), x.requires_grad, x.is_leaf, x.T),
    "a_parameter": lambda x: (PARAMETER * x, PARAMETER.requires_grad, isinstance(PARAMETER, nn.Parameter)),
    "made": lambda x: (torch.zeros(2), torch.zeros_like(x), torch.tensor([1.0]), torch.arange(3)),
    "functional": lambda x: (F.softmax(x, -1), F.relu(x), F.gelu(x), F.layer_norm(x, (3,)), F.pad(x, (1, 1))),
    "aten": lambda x: torch.ops.aten.add.Tensor(x, x),
    "overridable": lambda x: scaled(x, factor=3),
    "in_place": lambda x: x.clone().add_(1).mul_(2),
    "hash": lambda x: ({x: 1}[x], x in [x]),
}


@pytest.mark.parametrize("program", ASKED.values(), ids=ASKED)
def test_functions_that_a_mode_receives(program):
    def fn(x):
        log = Log()
        with log:
            y = program(x)
        return y, log.seen, x * 2

    check(fn, tensor(2, 3), graphs=None, breaks=None)


@checked(tensor(3), graphs=None, breaks=None)
def test_under_a_device(x):
    with torch.device("cpu"), Log() as log:
        y = torch.ones(3) + x
    return y, log.seen


BROKEN = {
    "device_inside": lambda x: torch.device("cpu"),
    "attribute_written": lambda x: setattr(x, "mark", 3),
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda a: a.sin(), x, use_reentrant=False),
    "vmap": lambda x: torch.func.vmap(lambda a: a.sum())(x),
}


@pytest.mark.parametrize("program", BROKEN.values(), ids=BROKEN)
def test_code_under_a_mode_runs_in_eager(program):
    def fn(x):
        y = x + 1
        log = Log()
        with log:
            y = torch.sin(y)
            z = program(x)
            y = torch.cos(y)
        return y * 2, z, log.seen

    check(repeated(1)(fn), tensor(2, 3), graphs=None, breaks=None)


def test_graph_break_inside_torch_function_of_a_mode():
    class Speaks(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            found = func(*args, **(kwargs or {}))
            dl.graph_break()
            return found * 2

    def fn(x):
        y = x + 1
        with Speaks():
            y = torch.sin(y)
        return y * 2

    check(fn, tensor(3), graphs=None, breaks=None)


def test_around_the_call_and_inside():
    def fn(x):
        with Scale(2.0):
            return torch.sin(x)

    def around(x):
        with Scale(3.0):
            return fn(x)

    check(around, tensor(3), graphs=None, breaks=None)


def test_a_break_has_a_name_and_a_hint():
    def fn(x):
        with Scale(2.0):
            return torch.sin(x)

    with pytest.raises(dl.exc.Unsupported, match="the program enters or leaves .*Scale"):
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))


@checked(tensor(3), graphs=2, breaks=None)
def test_code_before_a_mode_is_captured(x):
    y = (x * 2).cos()
    with Scale(2.0):
        z = torch.sin(y)
    return z + y


class Older(torch.Tensor):
    """A subclass in the style that predates ``DisableTorchFunctionSubclass``."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():
            found = func(*args, **(kwargs or {}))
        return found.as_subclass(cls) if isinstance(found, torch.Tensor) else found


@checked(tensor(3), graphs=(1, 4), breaks=(1, 9))
def test_all_torch_functions_disabled(x):
    y = x.as_subclass(Older) * 2
    with torch._C.DisableTorchFunction():
        z = y.sin() + (1 if torch._C._is_torch_function_enabled() else 2)
        dl.graph_break()
        z = z.cos()
    return (y + 1), z, torch._C._is_torch_function_enabled()


@checked(tensor(3), graphs=(1, 2))
def test_all_torch_functions_disabled_in_one_graph(x):
    return (x.as_subclass(Older) * 2).sum()


def test_all_torch_functions_disabled_under_a_mode():
    class Doubles(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            found = func(*args, **(kwargs or {}))
            return found * 2 if func is torch.Tensor.sin else found

    def fn(x):
        with Doubles():
            y = x.sin()
            with torch._C.DisableTorchFunction():
                y = y + x.sin()
        return y

    check(fn, tensor(3), graphs=(1, 4), breaks=(1, 9))


# -- how they are entered and left -------------------------------------------------------------------------------------


class NoGrad(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        with torch.no_grad():
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


def no_grad_inside(x, p):
    with NoGrad():
        y = p * x
    return y, p * x


def finally_while_raising(x, p):
    m = Finally()
    try:
        with m:
            y = x.sin()
            y = torch.cos(y)
    except RuntimeError as e:
        y = str(e)
    return y, m.log, x + 1


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


def random_numbers(x, p):
    with Log() as log:
        y = torch.rand(3)
        z = torch.nn.functional.dropout(x, 0.5)
    return y, z, log.seen


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


@pytest.mark.parametrize(
    "program",
    [
        no_grad_inside,
        finally_while_raising,
        exit_stack,
        asked_for_the_current_one,
        in_a_generator,
        left_in_another_order,
        by_helpers,
        in_place,
        suppressing,
        raised_through_two,
        random_numbers,
        grad_mode_set,
        grad_mode_by_a_decorator,
    ],
    ids=lambda program: program.__name__,
)
def test_mode_entered_by_a_method_call(program):
    parameter = nn.Parameter(torch.ones(3))

    def fn(x):
        found = program(x, parameter)
        return found, torch.is_grad_enabled(), torch._C._len_torch_function_stack()

    calls = 1 if program is suppressing else 2  # a class defined inside is another one in each call
    check(repeated(calls)(fn), tensor(2, 3), graphs=None, breaks=None)
