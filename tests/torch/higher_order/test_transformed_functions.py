"""autograd Functions under torch.func's transforms, and functions that mutate what they are mapped over."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.function import once_differentiable
from torch.func import grad, grad_and_value, jacrev, jvp, vjp, vmap

import dynamo_lite as dl
from programs import check, checked, compiled_by, tensor, with_gradients

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


class Five(torch.autograd.Function):
    """A Function whose gradient isn't that of its forward, so that a test can tell which of the two was used."""

    @staticmethod
    def forward(x):
        return x.sin() * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * 5


class FiveOfRows(Five):
    generate_vmap_rule = True


class Several(torch.autograd.Function):
    """A Function with several arguments, results, saved values and attributes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, scale, y, power):
        return x * y.exp() * scale, (x > 0).long(), y**power

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.scale, y, ctx.power = inputs
        ctx.mask = x > 0
        ctx.save_for_backward(x, y, output[0], y.cos())
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, one, _, other):
        x, y, product, cosine = ctx.saved_tensors
        return one * y.exp() * 3 * ctx.mask, None, one * product + other * ctx.power * cosine, None


class Once(Five):
    generate_vmap_rule = True

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * 5


class OwnRule(Five):
    @staticmethod
    def vmap(info, in_dims, x):
        return OwnRule.apply(x) + 1, in_dims[0]


class WithTangents(FiveOfRows):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * x.cos() * 7


@BACKENDS
@pytest.mark.parametrize("kind", [Five, FiveOfRows, OwnRule, WithTangents])
def test_function_under_grad(backend, kind):
    def fn(x):
        gradient, value = grad_and_value(lambda v: kind.apply(v).sum())(x)
        twice = grad(lambda v: grad(lambda w: (kind.apply(w) ** 2).sum())(v).sum())(x)
        y, back = vjp(kind.apply, x)
        return gradient, value, twice, y, *back(x), jacrev(kind.apply)(x)

    check(with_gradients(compiled_by(backend)(fn)), tensor(3), graphs=None)


@BACKENDS
@pytest.mark.parametrize("kind", [FiveOfRows, WithTangents, Once])
@pytest.mark.parametrize("grads", [False, True])
def test_function_under_vmap(backend, kind, grads):
    def fn(x):
        y = vmap(kind.apply)(x)
        return y, vmap(lambda v: kind.apply(v).sum() * v, in_dims=1, out_dims=1)(x)

    check(with_gradients(compiled_by(backend)(fn)), tensor(4, 3, grad=grads), graphs=None)


@BACKENDS
@pytest.mark.parametrize("grads", [False, True])
def test_gradients_of_each_row(backend, grads):
    def fn(x, w):
        def loss(v):
            return (FiveOfRows.apply(v * w) ** 2).sum()

        return vmap(grad(loss))(x), vmap(jacrev(FiveOfRows.apply))(x), grad(lambda v: vmap(loss)(v).sum())(x)

    check(with_gradients(compiled_by(backend)(fn)), tensor(4, 3), tensor(3, seed=1, grad=grads), graphs=None)


@BACKENDS
@pytest.mark.parametrize("grads", [False, True])
def test_function_of_several_tensors_under_transforms(backend, grads):
    def run(x, y):
        one, positive, other = Several.apply(x, 2.0, y, 3)
        return (one * other).sum() + positive.sum()

    def fn(x, y):
        return (
            vmap(run)(x, y),
            vmap(run, in_dims=(0, None))(x, y[0]),
            *vmap(grad(run, argnums=(0, 1)))(x, y),
            *grad(lambda a, b: vmap(run)(a, b).sum(), argnums=(0, 1))(x, y),
            grad(lambda v: grad(run)(v, y[0]).sum())(x[0]),
        )

    check(
        with_gradients(compiled_by(backend)(fn)),
        tensor(4, 3, grad=grads),
        tensor(4, 3, seed=1, grad=grads),
        graphs=None,
    )


@pytest.mark.parametrize("kind", [Five, OwnRule])
def test_functions_with_own_vmap_rules_fall_back_to_eager(kind):
    check(lambda x: vmap(kind.apply)(x), tensor(4, 3), graphs=None)


@checked(tensor(3), graphs=None)
def test_forward_mode_falls_back_to_eager(x):
    return jvp(WithTangents.apply, (x,), (x,))


def test_dual_numbers_in_other_calls():
    def fn(x):
        return WithTangents.apply(x) + 1

    compiled = dl.compile(fn, backend="eager")
    ad = torch.autograd.forward_ad
    for _ in range(2):
        x = tensor(3, grad=True)
        compiled(x).sum().backward()
        torch.testing.assert_close(x.grad, x.detach().cos() * 5)
        with ad.dual_level():
            value, tangent = ad.unpack_dual(compiled(ad.make_dual(x.detach(), torch.ones(3))))
            torch.testing.assert_close(tangent, x.detach().cos() * 7)
    check(with_gradients(fn), tensor(3, grad=True), graphs=None)


# -- writes into what is mapped over -----------------------------------------------------------------------------------


def add(row):
    row.add_(1)
    return row * 2


def shift(row):
    row[1:] = row[:-1] * 2
    return row


@pytest.mark.parametrize("function", [add, shift])
@pytest.mark.parametrize("options", [{}, {"in_dims": 1}, {"chunk_size": 3}])
def test_argument_mutated_under_vmap(function, options):
    check(lambda x: (vmap(function, **options)(x), x + 1), tensor(4, 3), graphs=1)
    check(lambda x: (lambda y: (vmap(function, **options)(y), y))(x * 2), tensor(4, 3), graphs=1)


def test_the_same_mapped_over_twice():
    def both_rows(one, other):
        one.mul_(2)
        return one + other

    check(lambda x: (vmap(both_rows)(x, x), x), tensor(4, 3), graphs=1)


def test_tensor_outside_the_mapped_arguments_is_mutated():
    def second(one, other):
        other.add_(1)
        return one + other

    check(lambda x, y: (vmap(second, in_dims=(0, None))(x, y), y), tensor(4, 3), tensor(3, seed=1), graphs=0)
    check(lambda x, y: (vmap(lambda row: second(row, y))(x), y), tensor(4, 3), tensor(3, seed=1), graphs=0)
    check(lambda x: vmap(lambda row: second(row, x[0]))(x), tensor(4, 3), graphs=None)


def test_argument_mutated_under_vmap_with_gradients():
    def fn(x, w):
        y = x * w
        return vmap(add)(y), y

    check(with_gradients(fn), tensor(4, 3), tensor(3, seed=1, grad=True), graphs=None)
    check(lambda x, w: (vmap(lambda row: row.mul_(w))(x * 1), x), tensor(4, 3), tensor(3, grad=True), graphs=None)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_transforms_of_a_compiled_function_run_it_in_eager(backend):
    def scalar(x):
        return (x.sin() * 2).sum()

    compiled = dl.compile(scalar, backend=backend)
    x, tangent = tensor(3), tensor(3, seed=1)
    assert torch.equal(compiled(x), scalar(x))  # what is compiled for plain tensors isn't used under a transform
    for transformed in (
        lambda f: vmap(f)(x.expand(2, 3)),
        lambda f: vmap(grad(f))(x.expand(2, 3)),
        lambda f: jvp(f, (x,), (tangent,)),
        lambda f: vjp(f, x)[1](torch.ones(())),
        lambda f: jacrev(f)(x),
    ):
        found, expected = transformed(compiled), transformed(scalar)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    refused = dl.compile(scalar, backend=backend, fullgraph=True)
    with pytest.raises(dl.exc.Unsupported, match=r"a tensor of a torch.func transform around the compiled function"):
        jvp(refused, (x,), (tangent,))
    calls_transform = dl.compile(lambda x: jvp(scalar, (x,), (tangent,)), backend=backend, fullgraph=True)
    torch.testing.assert_close(calls_transform(x), jvp(scalar, (x,), (tangent,)))
