"""Writes into tensors that autograd saved: eager raises in the backward, if there is one, so the call must succeed."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, compiled_by, leaf, tensor, with_gradients


def operand(w, x):
    y = w * x
    x.add_(1)
    return y


def created_operand(w, x):
    x = x.clone()
    y = w * x
    x[:1].zero_()
    return y.sum()


def result(w, x):
    y = torch.exp(w)
    y.add_(x)
    return y


def seen_through_a_view(w, x):
    x = x * 2
    y = w * x.view(2, 2).t().reshape(-1)[:4] + w * x.view(4)
    x.mul_(2)
    return y + x


PROGRAMS = [operand, created_operand, result, seen_through_a_view]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
def test_write_into_what_was_saved(fn, backend):
    compiled = dl.compile(fn, backend=backend)
    for _ in range(2):
        w, x, other = leaf(4), tensor(4), tensor(4)
        expected, found = fn(w, x), compiled(w, other)
        assert torch.equal(expected, found) and torch.equal(x, other)
        for each in (expected, found):
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                each.sum().backward()


def test_break_before_the_write():
    with pytest.raises(dl.exc.Unsupported, match="DL0717"):
        dl.compile(operand, backend="aot_eager", fullgraph=True)(leaf(4), tensor(4))


def test_write_into_what_was_not_saved():
    def fn(w, x):
        y = w + x
        x.add_(1)
        z = torch.relu(y) * 2
        z.mul_(2)
        return z

    check(compiled_by("aot_eager")(with_gradients(fn)), leaf(4), tensor(4))
