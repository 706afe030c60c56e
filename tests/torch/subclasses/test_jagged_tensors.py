"""Nested tensors of layout `torch.jagged`: values and offsets, and a size identified by its offsets."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import tensor

jagged = torch.nested.nested_tensor_from_jagged


def offsets_of(*lengths):
    return torch.tensor([0, *lengths]).cumsum(0)


def ragged(*lengths, width=4, seed=0, grad=False, offsets=None):
    values = tensor(sum(lengths), width, seed=seed, grad=grad)
    return jagged(values, offsets_of(*lengths) if offsets is None else offsets)


def parts(value):
    if isinstance(value, (tuple, list)):
        return [part for each in value for part in parts(each)]
    return [type(value), value.values(), value.offsets()] if value.is_nested else [type(value), value]


def same(fn, *makers, backend="eager", fullgraph=True):
    """Compiled and as it is, on what the makers make."""
    compiled = dl.compile(fn, backend=backend, fullgraph=fullgraph)
    for make in makers:
        wanted, found = fn(*make()), compiled(*make())
        for one, other in zip(parts(wanted), parts(found), strict=True):
            if isinstance(one, type):
                assert one is other
            else:
                torch.testing.assert_close(other, one)
    return compiled


BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def test_facts():
    def fn(x):
        facts = x.dim(), x.layout is torch.jagged, x.is_nested, x.dtype, x.shape[0], x.size(2), type(x) is type(x * 2)
        return (x * 2).sin() + x if facts == (3, True, True, torch.float32, 3, 4, True) else x

    same(fn, lambda: (ragged(2, 1, 3),), lambda: (ragged(2, 1, 3, seed=1),))


@BACKENDS
def test_operators(backend):
    def fn(x, w):
        y = F.linear(x, w).relu() + 1
        return y, y.softmax(-1), x.sum(-1), x.sum(1), F.layer_norm(x, (4,)), x.mean(1)

    same(fn, lambda: (ragged(2, 1, 3), tensor(5, 4)), lambda: (ragged(2, 1, 3, seed=2), tensor(5, 4)), backend=backend)


@BACKENDS
def test_values_and_offsets(backend):
    def fn(x):
        return x.values() * 2, x.offsets() + 1, x.offsets().diff(), x.lengths() is None

    def run(x):
        *tensors, nothing = fn(x)
        assert nothing
        return tensors

    same(run, lambda: (ragged(2, 1, 3),), lambda: (ragged(1, 1, 4),), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_gradients(backend):
    def fn(x, w):
        return F.linear(x, w).relu().values().sum()

    def grads(fn):
        x, w = ragged(2, 1, 3, grad=True).detach().requires_grad_(), tensor(5, 4, grad=True)
        fn(x, w).backward()
        return x.grad.values(), w.grad

    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(grads(compiled), grads(fn))


@BACKENDS
def test_made_inside(backend):
    def fn(values, offsets):
        x = jagged(values, offsets)
        return (x * 2).values(), x.sum(1)

    def returns(values, offsets):
        return jagged(values, offsets) * 2

    for each in (fn, returns):
        same(
            each,
            lambda: (tensor(6, 4), offsets_of(1, 2, 3)),
            lambda: (tensor(9, 4), offsets_of(4, 4, 1)),
            backend=backend,
        )


def test_made_inside_of_a_list():
    def fn(x, y):
        made = torch.nested.as_nested_tensor([x, y], layout=torch.jagged)
        return torch.nested.to_padded_tensor(made.sin(), 0.0), made.values() + 1

    same(fn, lambda: (tensor(2, 3), tensor(4, 3)), lambda: (tensor(5, 3), tensor(1, 3)), fullgraph=False)


@BACKENDS
def test_ragged_sizes(backend):
    def fn(x):
        heads = x.view(x.shape[0], x.shape[1], 2, 2)
        return heads * 2, x.reshape(x.size(0), -1, 2, 2).sum(-1)

    same(fn, lambda: (ragged(2, 1, 3),), lambda: (ragged(2, 1, 3, seed=1),), backend=backend)


def test_ragged_sizes_compared():
    def fn(x, y):
        return x * 2 if x.shape == y.shape else y * 3, x.shape[1] == y.shape[1]

    def run(fn, shares):
        x = ragged(2, 1, 3)
        found, alike = fn(x, ragged(2, 1, 3, seed=1, offsets=x.offsets() if shares else None))
        return found.values(), alike

    compiled = dl.compile(fn, backend="eager")
    for shares in (True, False, True, False):
        (wanted, alike), (found, alike_too) = run(fn, shares), run(compiled, shares)
        assert alike is alike_too is shares
        assert torch.equal(found, wanted)


def test_those_with_one_tensor_of_offsets():
    def fn(x, y):
        return x + y

    compiled = dl.compile(fn, backend="eager")
    for shares in (True, False, True):
        x = ragged(2, 1, 3)
        y = ragged(2, 1, 3, seed=1, offsets=x.offsets() if shares else None)
        if shares:
            assert torch.equal(compiled(x, y).values(), fn(x, y).values())
        else:
            for each in (fn, compiled):
                with pytest.raises(RuntimeError):
                    each(x, y)


@BACKENDS
def test_a_result_goes_with_its_argument(backend):
    def fn(x):
        return x * 2

    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        x = ragged(2, 1, 3)
        found = compiled(x)
        assert torch.equal((x + found).values(), (x * 3).values())
        assert found.offsets() is x.offsets()


@BACKENDS
def test_written_to(backend):
    def fn(x):
        x.mul_(2)
        return x + 1, x

    same(fn, lambda: (ragged(2, 1, 3),), lambda: (ragged(2, 1, 3),), backend=backend, fullgraph=False)


@BACKENDS
def test_values_written_to(backend):
    def fn(x):
        x.values().mul_(2)
        return x + 1, x

    same(fn, lambda: (ragged(2, 1, 3),), lambda: (ragged(2, 1, 3),), backend=backend, fullgraph=False)


def test_with_lengths():
    def fn(x):
        return x * 2, x.lengths() + 1

    def made():
        return (jagged(tensor(8, 4), torch.tensor([0, 3, 8]), torch.tensor([2, 4])),)

    same(fn, made, made, fullgraph=False)


def test_attention():
    def fn(x):
        heads = x.unflatten(-1, (2, 2)).transpose(1, 2)
        found = F.scaled_dot_product_attention(heads, heads, heads)
        return found.transpose(1, 2).flatten(-2)

    same(fn, lambda: (ragged(2, 1, 3),), lambda: (ragged(2, 1, 3, seed=1),), fullgraph=False)


def test_unbind():
    def fn(x):
        return [each.sum(0) for each in (x * 2).unbind()]

    same(fn, lambda: (ragged(2, 1, 3),), lambda: (ragged(1, 2, 3),), fullgraph=False)


def test_plain_tensor_the_next_time():
    def fn(x):
        return x * 2 + 1

    same(fn, lambda: (ragged(2, 3),), lambda: (tensor(5, 4),), lambda: (ragged(2, 3),))


def test_carried_over_a_break():
    def fn(x):
        y = x * 2
        dl.graph_break()
        return y + x if y.shape[1] == x.shape[1] else x

    same(fn, lambda: (ragged(2, 1, 3),), lambda: (ragged(2, 1, 3),), fullgraph=False)


def test_size_goes_over_a_break():
    def fn(x):
        size = x.shape[1]
        dl.graph_break()
        return x.view(3, size, 2, 2) if size == x.shape[1] else x

    same(fn, lambda: (ragged(2, 1, 3),), lambda: (ragged(2, 1, 3),), fullgraph=False)


def test_arithmetic_with_ragged_sizes():
    def fn(x):
        size = x.shape[1]
        return x.view(3, size, 2, 2) * 2 if size * 2 != size else x, [each for each in range(2) if size]

    def run(x):
        found, _ = fn(x)
        return found

    same(run, lambda: (ragged(2, 1, 3),), lambda: (ragged(2, 1, 3),), fullgraph=False)


def test_attributes_of_autograd():
    def fn(x):
        return x * 2 if x.is_leaf and x.grad is None and x.grad_fn is None else x * 3

    same(fn, lambda: (ragged(2, 1, 3).detach(),), lambda: (ragged(2, 1, 3).detach().requires_grad_(),), fullgraph=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_of_the_values(backend):
    def fn(x):
        count = x.values().shape[0]
        return x.values() * count, torch.arange(count), (x * 2).values().reshape(count * 2, -1)

    before = dl.counters.graphs
    lengths = [(2, 1, 3), (2, 2, 3), (4, 5, 1), (1, 1, 1)]
    same(fn, *(lambda each=each: (ragged(*each),) for each in lengths), backend=backend)
    assert dl.counters.graphs - before <= 2


def test_view_that_needs_gradients():
    def fn(x, w):
        return F.linear(x, w).cos().values().sum()

    for backend in ("eager", "aot_eager"):
        compiled = dl.compile(fn, backend=backend)
        for lengths in ((2, 1, 3), (4, 4, 4), (5, 1, 1)):
            grads = []
            for each in (fn, compiled):
                values, w = tensor(sum(lengths), 4, grad=True), tensor(5, 4, grad=True)
                each(jagged(values * 2, offsets_of(*lengths)), w).backward()
                grads.append((values.grad, w.grad))
            torch.testing.assert_close(*grads)


@BACKENDS
def test_views_share_memory(backend):
    def fn(x):
        return x.view(3, -1, 2, 2), x.transpose(1, 2), x.values(), x.detach()

    compiled = dl.compile(fn, backend=backend)
    for _ in range(2):
        x = ragged(2, 1, 3)
        for one, other in zip(fn(x), compiled(x), strict=True):
            assert type(one) is type(other) and one.stride()[-1] == other.stride()[-1]
            one, other = (each.values() if each.is_nested else each for each in (one, other))
            assert one.data_ptr() == other.data_ptr() == x.values().data_ptr() and one.shape == other.shape


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_batches_of_any_size(backend):
    def fn(x):
        return (x * 2).sum(1) + x.shape[0], x.cos(), x.view(x.shape[0], x.shape[1], -1, 2).values()

    before = dl.counters.graphs
    batches = [((2, 1, 3), 4), ((2, 3), 4), ((4, 5, 1, 2, 3), 4), ((7, 7, 7), 4), ((1, 9, 2), 8), ((1, 2), 6)]
    same(fn, *(lambda each=each: (ragged(*each[0], width=each[1]),) for each in batches), backend=backend)
    assert dl.counters.graphs - before <= 3
