"""Callables without a frame to translate are compiled as well: C functions, operators, a library's functions."""

from __future__ import annotations

import copy
import functools
import inspect
import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import dynamo_lite as dl
from programs import Recorder, tensor
from weights import seeded

Q = tensor(1, 2, 16, 16)


def causal(batch, head, at, to):
    return at >= to


def halved(score, batch, head, at, to):
    return score * 0.5


def waves(x):
    return (x * 2).sin()


@torch.no_grad()
def without_gradients(x):
    return x * 2


class Callable:
    def __call__(self, x):
        return x * 2


CALLS = {
    "flex_attention": (flex_attention, (Q, Q, Q), {}),
    "with a score": (flex_attention, (Q, Q, Q), {"score_mod": halved}),
    "with blocks": (flex_attention, (Q, Q, Q), {"block_mask": create_block_mask(causal, 1, 2, 16, 16, device="cpu")}),
    "attention": (F.scaled_dot_product_attention, (Q, Q, Q), {"is_causal": True}),
    "functional": (F.cross_entropy, (Q[0, 0], torch.arange(16)), {"label_smoothing": 0.1}),
    "a function in C": (torch.softmax, (Q,), {"dim": -1}),
    "einsum": (torch.einsum, ("bhij,bhkj->bhik", Q, Q), {}),
    "norm": (torch.norm, (Q,), {}),
    "operator": (operator.add, (Q, Q), {}),
    "aten": (torch.ops.aten.sin, (Q,), {}),
    "an overload": (torch.ops.aten.sin.default, (Q,), {}),
    "partial": (functools.partial(torch.add, alpha=2), (Q, Q), {}),
    "a method in C": (Q.mul, (Q,), {}),
    "vmap": (torch.vmap(waves), (Q,), {}),
    "grad": (torch.func.grad(lambda x: waves(x).sum()), (Q,), {}),
    "decorated": (without_gradients, (Q,), {}),
    "an object": (Callable(), (Q,), {}),
}


@pytest.mark.parametrize("case", CALLS)
def test_callables_of_every_kind_are_one_graph(case):
    fn, args, kwargs = CALLS[case]
    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(*args, **kwargs), fn(*args, **kwargs))
    assert len(recorder.graphs) == 1


def test_compiled_callable_takes_the_original_arguments():
    compiled = dl.compile(F.gelu, backend="eager")
    assert inspect.signature(dl.compile(F.relu, backend="eager")) == inspect.signature(F.relu)
    assert compiled.__name__ == "gelu" and compiled.__doc__ == F.gelu.__doc__
    assert dl.compile(functools.partial(torch.add, 1), backend="eager").__name__ == "partial"
    assert dl.compile(torch.ops.aten.sin.default, backend="eager").__name__ == torch.ops.aten.sin.default.__name__
    with pytest.raises(TypeError, match="gelu"):
        compiled()


def test_compiled_for_another_backend():
    first, second = Recorder(), Recorder()
    dl.compile(dl.compile(torch.sin, backend=first), backend=second)(Q)
    assert (len(first.graphs), len(second.graphs)) == (0, 1)


def test_one_backend_for_many():
    compiles = dl.optimize("eager")
    functions = [torch.sin, torch.cos, torch.tan, torch.exp, torch.neg, torch.abs, torch.floor, torch.ceil, torch.sqrt]
    dl.reset()
    for fn in functions * 2:
        assert torch.equal(compiles(fn)(Q.abs()), fn(Q.abs()))
    assert dl.counters.frames == 2 * len(functions)


def test_compiled_callable_called_in_another_function():
    sine = dl.compile(torch.sin, backend="eager")
    recorder = Recorder()
    compiled = dl.compile(lambda x: sine(x) + 1, backend=recorder, fullgraph=True)
    assert torch.equal(compiled(Q), Q.sin() + 1)
    assert len(recorder.graphs) == 1


def test_disabled_callables_are_not_compiled():
    calls = []

    @torch._dynamo.disable
    def fn(x):
        calls.append(torch.compiler.is_compiling())
        return x + 1

    assert torch.equal(dl.compile(fn, backend="eager")(Q), Q + 1)
    assert calls == [False]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, scale: float = 2.0):
        return self.linear(x) * scale


def test_forward_of_a_compiled_module():
    model, seen, recorder = seeded(Scaled()), [], Recorder()
    model.register_forward_hook(lambda *args: seen.append(1))
    compiled, x = dl.compile(model, backend=recorder), tensor(2, 3)
    for _ in range(2):
        assert torch.equal(compiled.forward(x, scale=3.0), model.forward(x, scale=3.0))
    assert (len(recorder.graphs), seen) == (1, [])
    assert inspect.signature(compiled.forward) == inspect.signature(model.forward)
    compiled.forward = lambda x: x * 0
    assert torch.equal(compiled(x), x * 0) and torch.equal(model(x), x * 0)
    del compiled.forward
    assert torch.equal(copy.deepcopy(compiled).forward(x), model.forward(x))


def test_forward_of_a_compiled_module_inside():
    inner = seeded(Scaled())
    compiled = dl.compile(inner, backend="eager")
    recorder, x = Recorder(), tensor(2, 3)
    outer = dl.compile(lambda x: compiled.forward(x) + compiled(x), backend=recorder, fullgraph=True)
    assert torch.equal(outer(x), inner(x) * 2)
    assert len(recorder.graphs) == 1
