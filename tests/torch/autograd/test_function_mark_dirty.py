"""``ctx.mark_dirty``: Functions that mutate an argument and return it."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, compiled_by, leaf, tensor, with_gradients


class Scales(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.factor = factor
        ctx.mark_dirty(x)
        return x.mul_(factor)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        (result,) = ctx.saved_tensors
        return gradient * result


class Adds(torch.autograd.Function):
    """Writes to one of two, and gives another result too."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        ctx.set_materialize_grads(False)
        return x.add_(y), y * 2

    @staticmethod
    def backward(ctx, one, other):
        if one is None or other is None:
            return one, one if other is None else other * 2
        return one, one + other * 2


class Counts(torch.autograd.Function):
    """Writes to a buffer, which gets no gradient."""

    @staticmethod
    def forward(ctx, x, seen):
        seen.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        ctx.mark_dirty(seen)
        ctx.mark_non_differentiable(seen)
        return x * 2, seen

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * 2, None


class SetUp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@checked(leaf())
@compiled_by("aot_eager")
@checked(leaf())
@with_gradients
def test_what_is_returned_is_the_argument(x):
    y = x * 1
    z = Scales.apply(y, 3.0)
    return z is y, y.sin() * z, z + 1


@BACKENDS
@pytest.mark.parametrize("function", [Exp, SetUp])
def test_what_was_written_is_saved(function, backend):
    def fn(x):
        y = x.sin()
        z = function.apply(y)
        return z is y, z * y

    check(with_gradients(compiled_by(backend)(fn)), leaf())


@checked(leaf(), leaf(seed=1), graphs=None)
@with_gradients
def test_one_of_two(x, y):
    z = x * 1
    one, other = Adds.apply(z, y * 1)
    return one is z, one * other, z.cos()


@pytest.mark.parametrize("which", [0, 1])
def test_one_of_two_of_which_one_is_used(which):
    check(with_gradients(lambda x, y: Adds.apply(x * 1, y * 1)[which].sin()), leaf(), leaf(seed=1), graphs=None)


@checked(leaf(), graphs=None)
@with_gradients
def test_a_view(x):
    y = x * 1
    z = Scales.apply(y[1:])
    return y * 2, z


@checked(leaf(2, 3), graphs=None)
@with_gradients
def test_one_of_several_views(x):
    first, second = (x * 1).unbind(0)
    return Scales.apply(first) + second


@checked(leaf(2, 3), torch.zeros(3), graphs=None)
@with_gradients
def test_a_buffer(x, seen):
    y, now = Counts.apply(x, seen)
    return y * now, now is seen, now.requires_grad


@checked(tensor(3))
def test_an_argument_without_gradients(x):
    y = Scales.apply(x)
    return y is x, y + 1


def test_an_argument_with_a_history():
    """A compiler would take the write for one that autograd doesn't see."""

    def fn(x, y):
        one, other = Adds.apply(x, y * 1)
        return one is x, one * other

    check(with_gradients(fn), tensor(3), leaf(seed=1), graphs=None)
    for backend in ("eager", "aot_eager"):
        x, y = tensor(3), leaf(seed=1)
        dl.compile(fn, backend=backend)(x, y)
        assert x.requires_grad and not x.is_leaf


def test_written_and_not_said_so():
    class Silent(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.mark_dirty(x)
            y.mul_(2)
            return x.mul_(3)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3, None

    def fn(x):
        y, z = x * 1, x * 2
        return Silent.apply(y, z), z

    check(with_gradients(fn), leaf(), graphs=None)


def test_saved_before_it_is_written():
    class Squares(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0]

    def fn(x):
        y = x * 1
        return Squares.apply(y).sum()

    check(with_gradients(fn), leaf(), graphs=None)


class AddsTo(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        return x.add_(y), y * 2

    @staticmethod
    def backward(ctx, one, other):
        return one, one + other * 2


class WritesBoth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x, y)
        return y.mul_(3), x.mul_(2)

    @staticmethod
    def backward(ctx, one, other):
        return other * 2, one * 3


def result_is_not_used(x):
    y = x * 1
    Scales.apply(y, 3.0)
    return y.sum()


def view_from_before(x):
    y = x * 1
    view = y[1:]
    Scales.apply(y, 3.0)
    return view.sin(), y


def several(x):
    y = x * 1
    for factor in (2.0, 3.0):
        y = Scales.apply(y, factor).add_(1)
    return Exp.apply(y)


def history_of_another(x):
    y = torch.zeros(3)
    one, other = AddsTo.apply(y, x)
    return one.sin(), other, one is y, y.requires_grad


def two(x):
    one, other = WritesBoth.apply(x * 1, x * 2)
    return one.sin(), other


def buffer_of_the_graph(x):
    y, now = Counts.apply(x * torch.ones(2, 3), seen := torch.zeros(3))
    return y * now, now is seen, seen.requires_grad


def without_gradients(x):
    with torch.no_grad():
        y = x * 1
        z = Scales.apply(y)
    return z * x, z is y


@BACKENDS
@pytest.mark.parametrize(
    "program",
    [result_is_not_used, view_from_before, several, history_of_another, two, buffer_of_the_graph, without_gradients],
)
def test_tensor_of_the_graph_is_captured(program, backend):
    check(with_gradients(compiled_by(backend)(program)), leaf())


@BACKENDS
def test_write_into_what_another_operator_saved_fails(backend):
    def fn(x):
        y = x.exp()
        return y, Scales.apply(y)

    compiled = dl.compile(fn, backend=backend)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            compiled(leaf())[0].sum().backward()


@pytest.mark.parametrize("argument", [lambda x: x, lambda x: (x * 1)[:]], ids=["leaf", "view"])
def test_others_break_by_name(argument):
    with pytest.raises(dl.exc.Unsupported, match="by ctx.mark_dirty, forward writes into a leaf, a view or an input"):
        dl.compile(lambda x: Scales.apply(argument(x)), backend="eager", fullgraph=True)(leaf())
