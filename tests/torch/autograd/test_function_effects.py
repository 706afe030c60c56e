"""``autograd.Function`` whose forward writes into tensors from outside, or returns what is no tensor."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import dynamo_lite as dl
from programs import check, compiled_by, leaf, tensor, with_gradients
from small_functions import Twice

STATISTICS = torch.zeros(3)


class CountsInABuffer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, buffer):
        buffer.add_(x.detach().sum())
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x, None


class CountsInAGlobal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        STATISTICS.mul_(2).add_(1)
        return x * STATISTICS

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class CountsInAModule(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, module):
        module.running_mean.mul_(0.9).add_(x.detach())
        return x - 1

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class SavesTheBuffer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, buffer):
        buffer.add_(1)
        ctx.save_for_backward(buffer)
        return x * buffer

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


class CountsOnCtx(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.calls = 0
        for _ in range(3):
            ctx.calls += 1
        return x * ctx.calls

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.calls


class ReturnsConstants(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, "two", None, x * 3, 4

    @staticmethod
    def backward(ctx, first, text, none, second, number):
        assert text is None and none is None and number is None
        return first * 2 + second * 3


class ReturnsContainers(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(True)
        return x * 2, [1, 2], {"three": 3}, Settings(4)

    @staticmethod
    def backward(ctx, gradient, *others):
        return gradient * 2 * (5 if others == (None, None, None) else 7)


@dataclasses.dataclass
class Settings:
    scale: int


KEPT: list[object] = []


class KeepsATensor(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        KEPT[:] = [x * 3]
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class ReturnsAList(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, [x * 3]

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * 2


class HasNoZeros(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.scale = 3
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return None if gradient is None else gradient * ctx.scale * x


class TwoWithoutZeros(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, one, other):
        return one if other is None else other


class Stops(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return None


class HasAJvp(Twice):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

    @staticmethod
    def jvp(ctx, tangent):
        return tangent * 2


BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@BACKENDS
def test_forward_writes_into_a_buffer(backend):
    def fn(x, buffer):
        y = CountsInABuffer.apply(x * 1, buffer)
        return y + 1, CountsInABuffer.apply(y, buffer) + buffer

    check(compiled_by(backend)(with_gradients(fn)), leaf(3), torch.zeros(3))
    check(compiled_by(backend)(fn), tensor(3), torch.zeros(3))


@BACKENDS
def test_forward_writes_into_a_global_and_a_modules_buffer(backend):
    def fn(x, module):
        y = CountsInAGlobal.apply(x * 1)
        return CountsInAModule.apply(y, module) + 1

    STATISTICS.zero_()
    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    module, other = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    for _ in range(3):
        x, y, before = leaf(3), leaf(3), STATISTICS.clone()
        expected = fn(x, module)
        after = STATISTICS.clone()
        STATISTICS.copy_(before)
        found = compiled(y, other)
        assert torch.equal(expected, found) and torch.equal(STATISTICS, after)
        assert torch.equal(module.running_mean, other.running_mean)
        expected.sum().backward()
        found.sum().backward()
        assert torch.equal(x.grad, y.grad)


@BACKENDS
@pytest.mark.parametrize(
    "function", [CountsOnCtx, ReturnsConstants, ReturnsContainers, HasAJvp, HasNoZeros], ids=lambda each: each.__name__
)
def test_forward_is_captured(function, backend):
    check(compiled_by(backend)(with_gradients(lambda x: function.apply(x * 1))), leaf(3))
    check(compiled_by(backend)(lambda x: function.apply(x * 1)), tensor(3))


@BACKENDS
def test_a_gradient_that_is_undefined(backend):
    """The Function's own backward runs: the traced one takes a tensor."""

    def fn(x, y):
        found = HasNoZeros.apply(x.sin())
        return Stops.apply(found) + y, found.detach()

    check(compiled_by(backend)(with_gradients(fn)), leaf(3), leaf(3, seed=1))


REASONS = {
    "it calls ctx.set_materialize_grads(False), and has several results or an object on ctx": lambda x: (
        TwoWithoutZeros.apply(x * 1)
    ),
    "forward returns a list of 1": lambda x: ReturnsAList.apply(x)[0],
    "forward keeps a tensor that it computes elsewhere than on ctx": lambda x: KeepsATensor.apply(x),
    "forward writes into a tensor from outside that backward reads": lambda x: SavesTheBuffer.apply(x, STATISTICS),
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_one_reason_that_holds(reason):
    with pytest.raises(dl.exc.Unsupported, match="DL0714") as caught:
        dl.compile(REASONS[reason], backend="eager", fullgraph=True)(leaf(3))
    assert str(caught.value).splitlines()[0].endswith(f"can't be in the graph: {reason}")


def test_tensor_that_the_forward_keeps_is_that_of_eager():
    def fn(x):
        y = KeepsATensor.apply(x * 2)
        return y + KEPT[0], KEPT[0].requires_grad

    check(with_gradients(fn), leaf(3), graphs=None)
