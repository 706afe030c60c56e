"""Functions that operators run: what they may read, write and leave behind."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch
from torch.func import functional_call, grad
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl
from programs import check, checked, leaf, tensor, watching, with_gradients

KEPT: list[torch.Tensor] = []


class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        KEPT.append(x * 2)
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 4


@checked(leaf(3), graphs=None, breaks=None)
@with_gradients
@watching("KEPT")
def test_tensor_that_a_forward_leaves_behind(x):
    return Keeps.apply(x) + 1


class Stateful(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, buffer):
        buffer.add_(1)
        ctx.buffer = buffer
        return x * buffer

    @staticmethod
    def backward(ctx, g):
        return g * ctx.buffer, None


@checked(leaf(3), tensor(3), graphs=None, breaks=None)
@with_gradients
def test_forward_that_writes_into_an_argument(x, buffer):
    return Stateful.apply(x, buffer) + buffer


class SavesOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        z = y + 1
        ctx.save_for_backward(y, None, x)
        ctx.z = z
        ctx.shape = x.shape
        return y

    @staticmethod
    def backward(ctx, g):
        y, nothing, x = ctx.saved_tensors
        assert nothing is None
        return (g * y + ctx.z * 0 + x * 0).view(ctx.shape)


@checked(leaf(2, 3))
@with_gradients
def test_saved_output_and_intermediate(x):
    return SavesOutput.apply(x) * 2


class Contiguous(torch.autograd.Function):
    """A Function whose backward, like a kernel's, views the gradient as one row."""

    @staticmethod
    def forward(ctx, x):
        ctx.strides = x.stride()
        return x.contiguous().view(-1).mul(2).view(x.shape)

    @staticmethod
    def backward(ctx, g):
        return g.contiguous().view(-1).mul(3).view(g.shape)


def test_gradient_of_other_strides_than_the_output():
    def fn(x):
        return Contiguous.apply(x)

    def around(x):
        return fn(x).t().sum(0).expand(2, 2).sum() + (fn(x).t() * tensor(3, 2)).sum()

    check(around, leaf(2, 3), graphs=None, breaks=None)


class AsksStrides(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3 if g.is_contiguous() else g * 5


def test_backward_that_asks_for_strides():
    def fn(x):
        y = AsksStrides.apply(x)
        return y.sum(), (y * y.detach()).sum()

    check(fn, leaf(2, 3), graphs=None, breaks=None)

    def around(x, expanded):
        y = AsksStrides.apply(x)
        (y.sum() if expanded else (y * 2).sum()).backward()
        return x.grad

    check(around, leaf(2, 3), True, others=[(leaf(2, 3), False)], graphs=None, breaks=None)


SCALE = tensor(3, seed=5).requires_grad_()


class UsesGlobal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * SCALE

    @staticmethod
    def backward(ctx, g):
        return g * SCALE * 2


@checked(leaf(3), graphs=None, breaks=1)
@with_gradients
@watching("SCALE")
def test_global_tensor_gets_no_gradient_of_a_function(x):
    return UsesGlobal.apply(x), UsesGlobal.apply(x.detach()).requires_grad


class WrongCount(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g


@checked(leaf(3), leaf(3, seed=1), graphs=None, breaks=None)
def test_backward_that_returns_too_little(x, y):
    z = WrongCount.apply(x, y)
    try:
        z.sum().backward()
    except RuntimeError:
        return z.detach() * 2
    return z


class RaisesInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ValueError("not today")


@checked(leaf(3), graphs=None, breaks=None)
def test_backward_that_raises(x):
    y = RaisesInBackward.apply(x) + 1
    return y.detach()


def test_checkpoint_with_keywords_and_structures():
    def inner(x, parts, *, scale, flag=True):
        a, b = parts
        return [a["w"] * x * scale, b] if flag else x

    def fn(x, w):
        first, second = checkpoint(inner, x, ({"w": w}, 3), use_reentrant=False, scale=w.sum())
        return first * second

    check(with_gradients(fn), leaf(3), leaf(3, seed=1))


@checked(leaf(3))
def test_checkpoint_that_returns_nothing_new(x):
    y = checkpoint(lambda a: (a, 3, None), x, use_reentrant=False)
    return y[0] is x, y[1], y[2], x + 1


def test_checkpoint_whose_function_writes_what_it_made():
    def inner(x):
        parts = []
        y = torch.zeros_like(x)
        for i in range(2):
            y[i] = x[i] * 2
            parts.append(y[i].sum())
        return sum(parts) + y.sum()

    check(with_gradients(lambda x: checkpoint(inner, x, use_reentrant=False)), leaf(2, 3))


@checked(tensor(3), graphs=None, breaks=None)
def test_tensor_of_a_body_escapes_by_a_cell(x):
    held = None

    def inner(a):
        nonlocal held
        held = a * 2
        return a.sum()

    g = grad(inner)(x)
    return g, held is None


@checked(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).eval(), tensor(2, 3), tensor(3, 3, seed=1))
def test_functional_call_replaces_and_puts_back(m, x, w):
    before = m[0].weight
    y = functional_call(m, {"0.weight": w}, x)
    return y, before is m[0].weight, m(x)


def test_functional_call_of_tied_weights():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(3, 3, bias=False)
            self.b = torch.nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    def fn(m, x, w):
        return functional_call(m, {"a.weight": w}, x), functional_call(m, {"a.weight": w}, x, tie_weights=False)

    check(fn, Tied(), tensor(2, 3), tensor(3, 3, seed=1))


def test_ordered_dict_that_a_body_returns_or_notes_in():
    def body(x, noted):
        made = OrderedDict(a=x.sin())
        if noted:
            made.note = x + 1
        return made

    def returned(x, noted):
        found = checkpoint(body, x, noted, use_reentrant=False)
        return found["a"] * 2, vars(found), type(found)

    def written(x, found):
        def run(x):
            found.seen = 1
            return x.cos()

        return checkpoint(run, x, use_reentrant=False), found.seen

    check(with_gradients(returned), leaf(3), False)
    check(with_gradients(returned), leaf(3), True, graphs=None)
    check(with_gradients(written), leaf(3), OrderedDict(), graphs=None)


def test_error_in_a_function_that_an_operator_runs(capfd):
    """FX would print the code of the enclosing graph."""

    def fn(x, at):
        return torch.vmap(torch.take)(x, at)

    compiled = dl.compile(fn, backend="eager")
    with pytest.raises(IndexError):
        compiled(torch.ones(2, 3), torch.tensor([5, 5]))
    assert "FX-traced" not in capfd.readouterr().err


@pytest.mark.parametrize("items", [iter, lambda given: (each for each in given), lambda given: zip(given)])
def test_iterator_from_outside_that_a_body_advances(items):
    def recomputed(x):
        numbers = items([2, 3, 4])

        def body(x):
            number = next(numbers)
            return (x * (number[0] if isinstance(number, tuple) else number)).sin()

        return checkpoint(body, x, use_reentrant=False).sum(), next(numbers)

    check(with_gradients(recomputed), leaf(3), graphs=None)
