"""``torch.autograd.Function``: what its forward and backward may do, and what `apply` returns."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

import dynamo_lite as dl
from equality import Pairing
from programs import approximate, check, checked, compiled_by, leaf, tensor, with_gradients


class Scale(torch.autograd.Function):
    """Its backward is not its forward's derivative."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor * 10 + x, None


class SplitForward(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    def backward(ctx, product, total):
        x, y = ctx.saved_tensors
        return product * y + total, product * x + 2 * total


@checked(leaf(3), leaf(3, seed=1), others=[(leaf(3), tensor(3))])
@with_gradients
def test_function_with_setup_context_and_several_results(x, y):
    product, total = SplitForward.apply(x, y)
    return product - total * 2


class NonDifferentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.sort()
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(grad).scatter(0, indices, grad)


@checked(leaf(4))
@with_gradients
def test_function_with_a_result_that_has_no_gradient(x):
    values, indices = NonDifferentiable.apply(x)
    return values * 2, indices + 1, indices.requires_grad


class Reads(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, flag=True):
        ctx.flag = flag
        return x * y if flag else x + y

    @staticmethod
    def backward(ctx, grad):
        needs = ctx.needs_input_grad
        return grad * 2 if needs[0] else None, grad * 3 if needs[1] else None, None


@checked(leaf(3), tensor(3, seed=1), others=[(tensor(3), leaf(3, seed=1))], all_graphs=2)
@with_gradients
def test_function_that_asks_which_gradients_are_needed(x, y):
    return Reads.apply(x, y), Reads.apply(y, x, False)


class TwoHeaded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weights):
        ctx.save_for_backward(x, *weights)
        return sum(x * w for w in weights)

    @staticmethod
    def backward(ctx, grad):
        x, *weights = ctx.saved_tensors
        return sum(grad * w for w in weights), None


@checked(leaf(3), leaf(3, seed=1), tensor(3), graphs=(1, 2), breaks=None)
@with_gradients
def test_function_with_tensors_in_a_list(x, a, b):
    return TwoHeaded.apply(x, [a, b]) + 1


@checked(leaf(3))
@with_gradients
def test_function_under_no_grad(x):
    with torch.no_grad():
        y = Scale.apply(x, 3)
    return y, Scale.apply(x, 2)


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad


class ReturnsInput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return -grad


@checked(leaf(3))
@with_gradients
def test_gradient_reversal(x):
    return Identity.apply(x) * 2, ReturnsInput.apply(x) is x, ReturnsInput.apply(x) * 3


class ReturnsSeveral(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, n):
        ctx.save_for_backward(y)
        ctx.n = n
        return y, x * n, x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, a, b, c):
        return b * ctx.n + c * 5, a * ctx.saved_tensors[0], None


@checked(leaf(3), leaf(3, seed=1))
@with_gradients
@checked(tensor(3), tensor(3, seed=1))
def test_function_that_returns_arguments(x, y):
    a, b, c = ReturnsSeveral.apply(x * 2, y, 3)
    d, e, _ = ReturnsSeveral.apply(y, b, 2)
    return a * b + c * d, a is y, e


@checked(tensor(3))
def test_arguments_that_were_returned_share_memory(x):
    y = x * 2
    z = ReturnsInput.apply(y)
    with torch.no_grad():
        y.mul_(3)
    return z + 1, z


class ReturnsInputAndSetsUp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.n = 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.n


def test_function_with_a_context_set_up_that_returns_its_argument():
    check(with_gradients(lambda x: ReturnsInputAndSetsUp.apply(x) * 3), leaf(3), graphs=None, breaks=None)


class Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, one, y, other, factor):
        ctx.save_for_backward(x, one, y, other)
        ctx.factor = factor
        return x * one + y * other * factor

    @staticmethod
    def backward(ctx, grad):
        x, one, y, other = ctx.saved_tensors
        return grad * one + x, None, grad * other * ctx.factor, grad * y, None


def test_one_tensor_as_several_arguments():
    """Without a gradient it is one input of the function; the gradients of one that has some are summed."""

    def twice(x, y, mask):
        return Masked.apply(x, mask, x, mask, 3) * 2

    def unseen(x, y, mask):
        with torch.no_grad():
            return Masked.apply(x, mask, x, mask, 3) * 2

    given = leaf(3), leaf(3, seed=1), tensor(3, seed=2)
    check(with_gradients(lambda x, y, mask: Masked.apply(x * 1, mask, y, mask, 3) * 2), *given)
    check(with_gradients(twice), *given, graphs=None)
    check(unseen, *given)
    check(twice, *map(torch.Tensor.detach, given))


class Bounded(torch.autograd.Function):
    """Its rules for batches and dual numbers are not what its forward and backward give."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.tanh().clamp(-0.9, 0.9)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, *grads):
        (output,) = ctx.saved_tensors
        return grads[0] * (1 - output.pow(2)) * 3


class BoundedInBatches(Bounded):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, dims, x):
        return x.tanh() * 100, dims[0]


class BoundedWithTangents(Bounded):
    generate_vmap_rule = False

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def jvp(ctx, tangent):
        (output,) = ctx.saved_tensors
        return tangent * (1 - output * output) * 7


@pytest.mark.parametrize("function", [Bounded, BoundedInBatches])
def test_rules_for_batches(function):
    def fn(x):
        return function.apply(x * 2) + 1

    check(with_gradients(fn), leaf(3), graphs=1, breaks=0, others=[(tensor(3),)])

    def batched(x):
        return torch.func.vmap(fn)(x), torch.func.vmap(torch.func.grad(fn))(x)

    check(batched, tensor(3), graphs=None, breaks=None)
    compiled = dl.compile(fn, backend="eager")
    assert torch.equal(torch.func.vmap(compiled)(tensor(3)), torch.func.vmap(fn)(tensor(3)))


def test_rule_for_dual_numbers():
    def fn(x):
        return BoundedWithTangents.apply(x * 2) + 1

    def tangent(x, of):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(of(forward_ad.make_dual(x, torch.ones_like(x)))).tangent

    check(with_gradients(fn), leaf(3), graphs=None, breaks=None)
    check(lambda x: tangent(x, fn), tensor(3), graphs=None, breaks=None)
    compiled = dl.compile(fn, backend="eager")
    x = tensor(3)
    assert torch.equal(compiled(x), fn(x))
    assert torch.equal(tangent(x, compiled), tangent(x, fn))


def test_ctx_that_is_kept():
    """Only CPython's own is there when the backward runs."""

    class Keeping(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            held.append(ctx)
            ctx.factor = 3
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            held.append(ctx)
            return gradient * ctx.factor

    held = []

    check(with_gradients(lambda x: Keeping.apply(x.sin()) + 1), tensor(3, grad=True), graphs=2, breaks=1)
    assert len(held) == 8 and all(one is other for one, other in zip(held[::2], held[1::2], strict=True))


class Halves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, y)
        return x * 2, y * x

    @staticmethod
    def backward(ctx, one, other):
        x, y = ctx.saved_tensors
        for_x = for_y = None
        if one is not None:
            for_x = one * 3
        if other is not None:
            for_x = other * y if for_x is None else for_x + other * 100
            for_y = other * x * 5
        return for_x, for_y


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_gradients_that_are_not_there(used):
    def fn(x, y):
        found = Halves.apply(x, y)
        return [found[at] * 2 for at in used]

    check(with_gradients(fn), leaf(3), leaf(3, seed=1), graphs=1, breaks=1)


class NeedsBoth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, one, other):
        return one * 2 + other * 3


def test_backward_that_fails_without_a_gradient():
    def fn(x):
        try:
            return NeedsBoth.apply(x * 1)
        except TypeError:
            return x, x

    compiled = dl.compile(fn, backend="eager")
    for wanted in ((0, 1), (0,)):
        told = []
        for call in (fn, compiled):
            x = leaf(3)
            try:
                sum(call(x)[at].sum() for at in wanted).backward()
                told.append(x.grad)
            except TypeError as error:
                told.append(str(error))
        Pairing().compare(*told, "gradients")


@checked(leaf(3), leaf(3, seed=1), breaks=1)
@with_gradients
@compiled_by("aot_eager")
@approximate
def test_gradients_that_are_not_there_under_a_compiler(x, y):
    one, other = Halves.apply(x, y)
    return one.sum() + NonDifferentiable.apply(x)[0].sum()


class KeepsAttributes(torch.autograd.Function):
    """Autograd doesn't watch over what is not saved, but kept in attributes."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale, ctx.double, ctx.x = scale, scale * 2, x
        return x * scale.sum()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale.sum() * ctx.double.sum() * ctx.x, None


@pytest.mark.parametrize(("backend", "inside"), [("eager", True), ("eager", False), ("aot_eager", True)])
def test_kept_in_attributes_and_written_to(backend, inside):
    def fn(x, scale):
        y = KeepsAttributes.apply(x * 2, scale)
        if inside:
            scale.mul_(3)
        return y + 1

    rows = []
    for run in (fn, dl.compile(fn, backend=backend)):
        x, scale = tensor(3, grad=True), tensor(2, seed=1)
        y = run(x, scale)
        if not inside:
            scale.mul_(3)
        y.sum().backward()
        rows.append((y.detach(), x.grad, scale))
    torch.testing.assert_close(*rows, rtol=0, atol=0)
