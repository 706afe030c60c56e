"""``grad_fn``: what programs read of autograd's graph."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import built, check, checked, leaf, with_gradients
from shared_programs import Square


@checked(leaf(), leaf(), operators=4)
@with_gradients
def test_whether_there_is_one(x, y):
    z = x * 2
    if x.grad_fn is None and not y.detach().grad_fn:
        z = z * 2
    with torch.no_grad():
        return z, (z * 2).grad_fn


def of_a_result(x):
    y = x * 2
    return y.grad_fn.name(), y


def of_an_argument(x):
    y = x * 2
    return y * 3, (x.grad_fn is None, y.grad_fn is y.grad_fn)


def returned(x):
    y = x * 2
    return y, y.grad_fn is not None


def of_a_written_view(x):
    y = x * 1
    z = y.view(-1)
    z.add_(1)
    return y.grad_fn.name(), z.grad_fn.name(), z * 2


@pytest.mark.parametrize("fn", [of_a_result, of_an_argument, returned, of_a_written_view])
def test_it_is_read_in_eager(fn):
    check(with_gradients(fn), leaf(), graphs=None, breaks=(1, 6))


@checked(leaf(), graphs=(1, 3), breaks=(1, 4))
@built
def test_with_a_hook():
    seen = []

    def fn(x):
        y = x * 2
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
        y.sum().backward()
        return seen

    return fn


def test_a_function_goes_by_its_name():
    def fn(x):
        y = Square.apply(x)
        return Square.apply(y), y

    y, before = dl.compile(fn, backend="eager", fullgraph=True)(leaf())
    assert y.grad_fn.name() == "SquareBackward"
    assert y.grad_fn.next_functions[0][0].name() == "SquareBackward"
    with pytest.raises(RuntimeError, match="output 0 of Square"):
        before.detach().mul_(2)
        y.sum().backward()


@checked(leaf(), graphs=2, breaks=(1, 3))
@with_gradients
def test_a_function_inside(x):
    y = Square.apply(x)
    return y.grad_fn.name(), y * 2
