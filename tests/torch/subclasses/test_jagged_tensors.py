"""Nested tensors of layout `torch.jagged` break the graph, and computations with them have eager's results."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import tensor

jagged = torch.nested.nested_tensor_from_jagged


def offsets_of(*lengths):
    return torch.tensor([0, *lengths]).cumsum(0)


def ragged(*lengths, width=4, seed=0, grad=False):
    return jagged(tensor(sum(lengths), width, seed=seed, grad=grad), offsets_of(*lengths))


def parts(value):
    if isinstance(value, (tuple, list)):
        return [part for each in value for part in parts(each)]
    return [type(value), value.values(), value.offsets()] if value.is_nested else [type(value), value]


def facts(x):
    found = x.dim(), x.layout is torch.jagged, x.is_nested, x.dtype, x.shape[0], x.size(2), type(x) is type(x * 2)
    return (x * 2).sin() + x if found == (3, True, True, torch.float32, 3, 4, True) else x


def operators(x):
    y = F.linear(x, tensor(5, 4)).relu() + 1
    return y, y.softmax(-1), x.sum(-1), x.sum(1), F.layer_norm(x, (4,)), x.mean(1)


def values_and_offsets(x):
    return x.values() * 2, x.offsets() + 1, torch.arange(x.values().shape[0]), (x * 2).values().reshape(-1)


def ragged_sizes(x):
    size = x.shape[1]
    heads = x.view(x.shape[0], size, 2, 2)
    dl.graph_break()
    return heads * 2 if size == x.shape[1] else x, x.reshape(x.size(0), -1, 2, 2).sum(-1)


def written_to(x):
    x.values().mul_(2)
    x.mul_(2)
    return x + 1, x


def attention(x):
    heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2)


def unbound(x):
    return [each.sum(0) for each in (x * 2).unbind()]


def made_inside(x):
    made = jagged(x.values() * 2, x.offsets())
    padded = torch.nested.as_nested_tensor([x.values(), x.values()[1:]], layout=torch.jagged)
    return made * 2, made.sum(1), torch.nested.to_padded_tensor(padded.sin(), 0.0)


PROGRAMS = (facts, operators, values_and_offsets, ragged_sizes, written_to, attention, unbound, made_inside)


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_programs(fn, backend):
    compiled = dl.compile(fn, backend=backend)
    for lengths in ((2, 1, 3), (2, 1, 3), (1, 4)):
        for one, other in zip(parts(fn(ragged(*lengths))), parts(compiled(ragged(*lengths))), strict=True):
            if isinstance(one, type):
                assert one is other
            else:
                torch.testing.assert_close(other, one)


def test_break_names_the_layout():
    with pytest.raises(dl.exc.Unsupported, match="sizes are computed by code of its class"):
        dl.compile(lambda x: x * 2, backend="eager", fullgraph=True)(ragged(2, 1))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    def fn(x, w):
        return F.linear(x, w).relu().values().sum()

    def grads(fn):
        x, w = ragged(2, 1, 3, grad=True).detach().requires_grad_(), tensor(5, 4, grad=True)
        fn(x, w).backward()
        return x.grad.values(), w.grad

    compiled = dl.compile(fn, backend=backend)
    for _ in range(2):
        torch.testing.assert_close(grads(compiled), grads(fn))


def test_plain_tensor_the_next_time():
    def fn(x):
        return x * 2 + 1

    compiled = dl.compile(fn, backend="eager")
    for make in (lambda: ragged(2, 3), lambda: tensor(5, 4), lambda: ragged(2, 3)):
        for one, other in zip(parts(fn(make())), parts(compiled(make())), strict=True):
            assert one is other if isinstance(one, type) else torch.equal(one, other)
