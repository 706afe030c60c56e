"""``ctx``: what the forward and the backward see of it, and backwards that write to it."""

from __future__ import annotations

import types

import pytest
import torch

import dynamo_lite as dl
from programs import check, compiled_by, leaf, tensor, with_gradients


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.scale, ctx.scales, ctx.table, ctx.tensor = 1, [1], {"scale": (1, [1])}, x * 3
        ctx.iterator, ctx.generator = iter([2, 3, 4]), numbers()
        ctx.settings = types.SimpleNamespace(scale=1)
        ctx.save_for_backward(x)
        return x * 2


def write_number(ctx, gradient):
    ctx.scale *= 10
    return gradient * ctx.scale


def write_after_use(ctx, gradient):
    found = gradient * ctx.scale
    setattr(ctx, "scale", ctx.scale + 1)
    return found


def cache(ctx, gradient):
    if not hasattr(ctx, "cached"):
        ctx.cached = gradient * 5
        return gradient
    return ctx.cached


def free(ctx, gradient):
    scale = getattr(ctx, "scale", 7)
    if hasattr(ctx, "scale"):
        del ctx.scale
    return gradient * scale


def append(ctx, gradient):
    ctx.scales.append(1)
    return gradient * len(ctx.scales)


def write_in_a_dict(ctx, gradient):
    ctx.table["scale"][1][0] += 1
    return gradient * ctx.table["scale"][1][0]


def write_to_an_object(ctx, gradient):
    ctx.settings.scale += 1
    return gradient * ctx.settings.scale


def write_tensor(ctx, gradient):
    ctx.tensor = ctx.tensor + 1
    return gradient * ctx.tensor


def write_into_tensor(ctx, gradient):
    ctx.tensor.add_(1)
    return gradient * ctx.tensor


def write_in_its_dict(ctx, gradient):
    vars(ctx)["scale"] += 1
    return gradient * ctx.scale


def save_again(ctx, gradient):
    (x,) = ctx.saved_tensors
    ctx.save_for_backward(gradient * 2)
    return gradient * x * ctx.saved_tensors[0]


def numbers():
    yield from (1, 2, 3)


def advance(ctx, gradient):
    return gradient * next(ctx.iterator)


def advance_generator(ctx, gradient):
    return gradient * next(ctx.generator)


def loop(ctx, gradient):
    for number in ctx.iterator:
        return gradient * number


WRITES = [
    *(write_number, write_after_use, cache, free, append, write_in_a_dict, write_to_an_object, write_tensor),
    *(write_into_tensor, write_in_its_dict, save_again, advance, advance_generator),
    loop,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("write", WRITES)
def test_backward_that_runs_twice_sees_what_it_wrote(write, backend):
    function = type("Writes", (Doubles,), {"backward": staticmethod(write)})

    def gradients(fn):
        found = []
        for _ in range(3):
            x = tensor(3, grad=True)
            y = fn(x).sum()
            for _ in range(3):
                x.grad = None
                y.backward(retain_graph=True)
                found.append(x.grad.tolist())
        return found

    assert gradients(dl.compile(lambda x: function.apply(x), backend=backend)) == gradients(function.apply)


def test_a_write_in_the_backward_breaks_by_name():
    function = type("Writes", (Doubles,), {"backward": staticmethod(write_number)})
    with pytest.raises(dl.exc.Unsupported, match=r"its backward writes ctx\.scale"):
        dl.compile(lambda x: function.apply(x), backend="eager", fullgraph=True)(leaf())


class ReadsSavedEarly(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.before = len(ctx.saved_tensors)
        ctx.save_for_forward(*inputs)
        ctx.after = len(ctx.saved_tensors)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (3 + ctx.before) * (5 + ctx.after)


class HasNoScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        if scale:
            ctx.scale = scale
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        try:
            return gradient * (ctx.scale if hasattr(ctx, "scale") else 5) * ctx.other, None
        except AttributeError as error:
            return gradient * len(str(error)), None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_attributes_that_are_missing_and_tensors_not_saved_yet(backend):
    check(compiled_by(backend)(with_gradients(lambda x: ReadsSavedEarly.apply(x))), leaf())
    check(compiled_by(backend)(with_gradients(lambda x: HasNoScale.apply(x, 0) + HasNoScale.apply(x, 3))), leaf())


def declare_dtype(ctx, x):
    ctx.set_output_grad_dtype(torch.float64)
    return x * 2


def add_into_buffer(ctx, gradient):
    (buffer,) = ctx.input_grad_buffers
    if buffer is None:
        return gradient * 2
    buffer.add_(gradient, alpha=2)


NEW_IN_CTX = {
    "set_output_grad_dtype": (declare_dtype, lambda ctx, gradient: (gradient * 2).to(torch.float32)),
    "input_grad_buffers": (lambda ctx, x: x * 2, add_into_buffer),
}


@pytest.mark.parametrize("name", NEW_IN_CTX)
def test_what_newer_torch_has_in_ctx_breaks_by_name(name):
    if not hasattr(torch.autograd.function.FunctionCtx, name):
        pytest.skip(f"torch {torch.__version__} has no ctx.{name}")
    forward, backward = map(staticmethod, NEW_IN_CTX[name])
    function = type("Function", (torch.autograd.Function,), {"forward": forward, "backward": backward})
    check(with_gradients(lambda x: function.apply(x.sin()) + function.apply(x.cos())), leaf(3), graphs=None)
    assert any(f"'{name}' of the ctx" in str(reason) for reason in dl.counters.break_reasons)
