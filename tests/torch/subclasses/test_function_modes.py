"""Function modes entered in compiled functions: the graph breaks, and CPython asks them."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode, handle_torch_function, has_torch_function

import dynamo_lite as dl
from modes import Log, Refuse, Rewrite, Scale
from programs import check, tensor
from weights import seeded


def test_rewriting():
    def fn(x):
        with Rewrite():
            y, z = torch.add(x, 3), x + 3
        return y, z, torch.add(x, 3)

    check(fn, tensor(3), graphs=None, breaks=None)


def test_one_in_another():
    def fn(x):
        with Scale(2.0):
            with Rewrite():
                y = torch.sin(torch.add(x, 2))
            z = torch.sin(torch.add(x, 2))
        with Scale(2.0), Scale(3.0) as inner:
            inner.factor = 5.0
            w = x.sin()
        return y, z, w

    check(fn, tensor(3), others=[(tensor(3, seed=1),)], graphs=None, breaks=None)


def test_state_of_a_mode_that_was_found():
    mode = Log()

    def fn(x):
        with mode:
            y = x.sin() * 2
        return y

    def run(x):
        mode.seen = []
        return fn(x), mode.seen

    check(run, tensor(3), others=[(tensor(3, seed=1),)], graphs=None, breaks=None)


def test_grown_state_compiles_again_as_any_list_does():
    mode = Log()

    def fn(x):
        with mode:
            return x.sin(), len(mode.seen)

    eager = copy.deepcopy(mode)
    compiled = dl.compile(fn, backend="eager")
    for _ in range(3):
        compiled(tensor(3))
        with eager:
            tensor(3).sin()
    assert len(mode.seen) == 3 and {each[0] for each in mode.seen} == {"sin"}


def test_base_mode():
    def fn(x):
        with BaseTorchFunctionMode():
            return torch.sin(x) + 1

    check(fn, tensor(3), graphs=None, breaks=None)


def test_it_raises():
    def fn(x):
        try:
            with Refuse():
                y = torch.sin(x)
        except ValueError as error:
            return x + 1, str(error)
        return y

    check(fn, tensor(3), graphs=None, breaks=None)


def test_it_raises_out_of_the_function():
    def fn(x):
        with Refuse():
            y = x * 2
            return torch.sin(y)

    check(fn, tensor(3), graphs=None, breaks=None)


def test_modules_under_a_mode():
    model = seeded(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 2)))

    def fn(x):
        log = Log()
        with log:
            y = model(x)
        return y, log.seen

    check(fn, tensor(4, 3), backward=True, graphs=None, breaks=None)


def test_attention_and_a_recurrent_layer():
    attention, recurrent = seeded(nn.MultiheadAttention(4, 2)), seeded(nn.LSTM(4, 4))

    def fn(x):
        log = Log()
        with log:
            y = attention(x, x, x)[0] + recurrent(x)[0]
        return y, log.seen

    check(fn, tensor(3, 2, 4), graphs=None, breaks=None)


def scaled(x, factor=1):
    """A function that may be overridden, as a library's."""
    if has_torch_function((x,)):
        return handle_torch_function(scaled, (x,), x, factor=factor)
    return x * factor


PARAMETER = nn.Parameter(torch.ones(3))
ASKED = {
    "negation": lambda x: -x,
    "reflected": lambda x: 1 - x,
    "reflected_power": lambda x: 2**x,
    "matmul": lambda x: x @ x.T,
    "comparison": lambda x: (x > 0) & ~(x < 1),
    "builtin_functions": lambda x: (abs(x), pow(x, 2), sum([x, x])),
    "list_argument": lambda x: torch.cat([x, x], dim=0),
    "names": lambda x: torch.add(input=x, other=1, alpha=2),
    "indexing": lambda x: (x[0], x[:, None], x[..., 0], x[torch.tensor([0])]),
    "facts": lambda x: (x.shape, x.dtype, x.dim(), x.size(0), x.ndim, len(x), x.requires_grad, x.is_leaf, x.T),
    "iteration": lambda x: ([row * 2 for row in x], [*x], list(zip(x, x))),
    "unpacking": lambda x: (lambda a, b: a + b)(*x),
    "backwards": lambda x: reversed(x),
    "loop": lambda x: sum(x[i] * i for i in range(len(x))),
    "a_parameter": lambda x: (PARAMETER * x, PARAMETER.requires_grad, isinstance(PARAMETER, nn.Parameter)),
    "made": lambda x: (torch.zeros(2), torch.zeros_like(x), torch.tensor([1.0]), torch.arange(3)),
    "functional": lambda x: (F.softmax(x, -1), F.relu(x), F.gelu(x), F.layer_norm(x, (3,)), F.pad(x, (1, 1))),
    "loss": lambda x: F.cross_entropy(x, torch.tensor([0, 1])),
    "aten": lambda x: torch.ops.aten.add.Tensor(x, x),
    "method_of_the_class": lambda x: torch.Tensor.add(x, 1),
    "overridable": lambda x: scaled(x, factor=3),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "in_place": lambda x: x.clone().add_(1).mul_(2),
    "own_attribute": lambda x: hasattr(x, "shape"),
    "hash": lambda x: ({x: 1}[x], x in [x]),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_it_is_asked(name):
    program = ASKED[name]

    def fn(x):
        log = Log()
        with log:
            y = program(x)
        return y, log.seen, x * 2

    recompiles = name == "matmul"  # what gets `T` is another object in each call
    check(fn, tensor(2, 3), graphs=None, breaks=None, recompiles=recompiles)


def test_grad_mode_is_asked_about():
    def fn(x):
        log = Log()
        with log, torch.no_grad():
            y = x * PARAMETER
        return y, log.seen

    check(fn, tensor(3), graphs=None, breaks=None)


def test_a_list_it_is_given_is_the_programs():
    class Grow(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.cat:
                args[0].append(args[0][0])
            return func(*args, **(kwargs or {}))

    def fn(x):
        parts = [x, x]
        with Grow():
            y = torch.cat(parts)
        return y, parts

    check(fn, tensor(3), graphs=None, breaks=None)


def test_a_mode_entered_while_one_answers():
    class Outer(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            with Scale(2.0):
                return func(*args, **(kwargs or {}))

    def fn(x):
        with Outer():
            return torch.sin(x), x + 1

    check(fn, tensor(3), graphs=None, breaks=None)


def test_under_a_device():
    def fn(x):
        with torch.device("cpu"), Log() as log:
            y = torch.ones(3) + x
        return y, log.seen

    check(fn, tensor(3), graphs=None, breaks=None)


BROKEN = {
    "number": lambda x: x.sum().item(),
    "deepcopy": lambda x: copy.deepcopy(x),
    "device_inside": lambda x: torch.device("cpu"),
    "legacy": lambda x: torch.FloatTensor([1, 2]),
    "attribute_written": lambda x: setattr(x, "mark", 3),
    "text": lambda x: f"{x.sum()}",
    "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(lambda a: a.sin(), x, use_reentrant=False),
    "vmap": lambda x: torch.func.vmap(lambda a: a.sum())(x),
    "explicit": lambda x: dl.graph_break(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_under_it_is_cpythons(name):
    program = BROKEN[name]

    def fn(x):
        y = x + 1
        log = Log()
        with log:
            y = torch.sin(y)
            z = program(x)
            y = torch.cos(y)
        return y * 2, z, log.seen

    check(fn, tensor(2, 3), calls=1, graphs=None, breaks=None)


def test_break_while_it_answers():
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


def test_break_after_it():
    def fn(x):
        with Scale(2.0):
            y = torch.sin(x)
        dl.graph_break()
        return torch.sin(y)

    check(fn, tensor(3), graphs=None, breaks=None)


def test_around_the_call_and_inside():
    def fn(x):
        with Scale(2.0):
            return torch.sin(x)

    def around(x):
        with Scale(3.0):
            return fn(x)

    check(around, tensor(3), graphs=None, breaks=None)


def test_left_by_a_helper():
    def fn(x):
        mode = Scale(2.0)
        mode.__enter__()
        y = torch.sin(x)
        mode.__exit__(None, None, None)
        return y, torch.sin(x)

    check(fn, tensor(3), graphs=None, breaks=None)


def test_a_break_has_a_name_and_a_hint():
    def fn(x):
        with Scale(2.0):
            return torch.sin(x)

    with pytest.raises(dl.exc.Unsupported, match="the context manager .*Scale.* is not traced"):
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))


def test_what_comes_before_it_is_captured():
    def fn(x):
        y = (x * 2).cos()
        with Scale(2.0):
            z = torch.sin(y)
        return z + y

    check(fn, tensor(3), graphs=2, breaks=None)


def test_left_on():
    def fn(x, mode):
        mode.__enter__()
        return torch.sin(x)

    def run(x):
        mode = Scale(2.0)
        try:
            return fn(x, mode), torch.sin(x)
        finally:
            mode.__exit__(None, None, None)

    check(run, tensor(3), graphs=None, breaks=None)


class Older(torch.Tensor):
    """Written as subclasses were before there was a way to turn off classes alone."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():
            found = func(*args, **(kwargs or {}))
        return found.as_subclass(cls) if isinstance(found, torch.Tensor) else found


def test_all_torch_functions_disabled():
    def fn(x):
        y = x.as_subclass(Older) * 2
        with torch._C.DisableTorchFunction():
            z = y.sin() + (1 if torch._C._is_torch_function_enabled() else 2)
            dl.graph_break()
            z = z.cos()
        return (y + 1), z, torch._C._is_torch_function_enabled()

    check(fn, tensor(3), graphs=(1, 4), breaks=(1, 9))


def test_all_torch_functions_disabled_in_one_graph():
    def fn(x):
        return (x.as_subclass(Older) * 2).sum()

    check(fn, tensor(3), graphs=(1, 2))


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
