"""Tensors whose `.data` become those of another argument, ``p.data = other``: the graph breaks there."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import Program, check, checked, leaf, repeated, tensor, with_gradients
from weights import seeded

THREE = tensor(3)


@pytest.mark.parametrize("grads", [(False, False), (True, False), (False, True), (True, True)])
def test_of_another(grads):
    def fn(p, other):
        p.data = other
        return p * 2

    check(
        repeated(3)(with_gradients(fn)), tensor(3, grad=grads[0]), tensor(3, seed=1, grad=grads[1]), graphs=1, breaks=1
    )


def test_is_one_memory_afterwards():
    def fn(p, other):
        p.data = other
        return p + 1

    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        p, other = tensor(3), tensor(3, seed=1)
        compiled(p, other)
        assert p.data_ptr() == other.data_ptr()
        other.add_(1)
        assert torch.equal(p, other)
    before = p.clone()
    compiled(p, other)  # now that it has them
    compiled(p, p)
    assert torch.equal(p, before)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_swapped(backend):
    def fn(one, other, x, held):
        for p, q in zip(one.parameters(), other.parameters()):
            p.data, q.data = q.data, p.data
        return one(x).relu()

    one, other = (seeded(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), scale) for scale in (0.3, 0.5))
    held = [*one.parameters(), *other.parameters()]
    check(
        Program(fn, calls=3, has_gradients=True, backend=backend, is_exact=False),
        one,
        other,
        torch.ones(2, 3),
        held,
        graphs=None,
    )


class Averaged(nn.Module):
    """Evaluates with the averages of its weights."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.shadow = {name: each.data.clone() for name, each in self.layer.named_parameters()}

    def forward(self, x):
        for name, each in self.layer.named_parameters():
            self.shadow[name] = (0.9 * self.shadow[name] + 0.1 * each.data).clone()
        kept = {}
        for name, each in self.layer.named_parameters():
            kept[name] = each.data
            each.data = self.shadow[name]
        with torch.no_grad():
            y = self.layer(x)
        for name, each in self.layer.named_parameters():
            each.data = kept[name]
        return y, self.layer(x)


def test_put_back():
    torch.manual_seed(0)
    check(Program(Averaged, is_built=True, calls=3, recompiles=True), tensor(2, 3), graphs=None)


@checked(leaf(), tensor(3, seed=1), graphs=None)
@with_gradients
def test_put_back_where_gradients_went(p, other):
    kept = p.data
    p.data = other
    y = p * p
    p.data = kept
    return y


@checked(tensor(3), tensor(3, seed=1), graphs=None)
def test_written_to_afterwards(p, other):
    p.data = other
    p.mul_(2)
    return p + 1, other + 1


@checked(tensor(3), tensor(3, seed=1), graphs=None)
def test_the_old_data_written_to_before(p, other):
    old = p.data
    p.mul_(2)
    p.data = other
    return p + 1, old + 1


@checked(tensor(3), tensor(3, seed=1), graphs=None)
def test_the_old_data_written_to_afterwards(p, other):
    old = p.data
    p.data = other
    old.mul_(2)
    return p + 1, old


@checked(tensor(3), tensor(3, seed=1), tensor(3, seed=2), graphs=2, breaks=2)
def test_of_two_one_after_the_other(p, one, other):
    p.data = one
    y = p * 2
    p.data = other
    return y, p * 3


@pytest.mark.parametrize("last", [lambda one: one[:3], lambda one: one[:3] + 1])
def test_a_part_before_others(last):
    def fn(p, one, other):
        p.data = one[2:5]
        y = p * 2
        p.data = last(other)
        return y, p * 3

    check(fn, tensor(3), tensor(6, seed=1), tensor(6, seed=2), graphs=None, breaks=(1, 2))


@checked(tensor(3), tensor(3, seed=1), graphs=2, breaks=2)
def test_given_results_after_another(p, other):
    p.data = other
    y = p * 2
    p.data = y + 1
    return y, p * 3


def test_parts_of_a_vector():
    def fn(net, vector, x):
        nn.utils.vector_to_parameters(vector, net.parameters())
        return net(x)

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    size = sum(each.numel() for each in net.parameters())
    check(with_gradients(fn), net, tensor(size), tensor(2, 3), graphs=None)
    compiled = dl.compile(fn, backend="eager")
    for seed in range(3):
        vector = tensor(size + 5, seed=seed)[seed : seed + size]
        y = compiled(net, vector, torch.ones(1, 3))
        assert torch.equal(nn.utils.parameters_to_vector(net.parameters()), vector)
        assert [*net.parameters()][1].data_ptr() == vector[12:].data_ptr()
        assert torch.equal(y, net(torch.ones(1, 3)))


@checked(tensor(2, 3), tensor(3, 2, seed=1), graphs=2, breaks=1)
def test_transposed(p, other):
    p.data = other.t()
    return p + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parts_of_its_own(backend):
    def fn(p, q):
        old = p.data
        p.data = p.data[1:]
        q.data = q.data.t()
        return p * 2 + q.sum(), old.sum()

    results = []
    for program in (fn, dl.compile(fn, backend=backend)):
        p, q = tensor(6, grad=True), nn.Parameter(tensor(2, 3))
        for _ in range(3):
            y, total = program(p, q)
            y.sum().backward()
            results.append((y.detach(), total, p.detach().clone(), p.grad, q.detach().clone(), q.grad))
            p.grad = q.grad = y = None  # autograd's node for a leaf knows its shape, and lives as long as the result
    for one, other in zip(results[:3], results[3:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@checked(leaf(), tensor(3, seed=1), graphs=None)
def test_handed_out(p, other):
    p.data = other
    return p, other, p.detach(), other.view(3, 1), p.data


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_of_another_type(dtype):
    def fn(p, other):
        try:
            p.data = other
        except RuntimeError as error:
            return str(error)
        return p + 1

    check(fn, leaf(), tensor(3, seed=1).to(dtype), graphs=None)


@pytest.mark.parametrize("viewed", [torch.conj, torch.neg, lambda x: x.view(torch.complex64)])
def test_viewed_otherwise(viewed):
    def fn(p, other):
        p.data = viewed(other)
        made = nn.Parameter(viewed(other), requires_grad=False)
        return p + 1, made + 1

    check(fn, tensor(3).to(torch.complex64), tensor(3, seed=1).to(torch.complex64) * 1j, graphs=None)


@checked(tensor(3), tensor(3, seed=1), tensor(3, seed=2), breaks=1, others=[(THREE, THREE, tensor(3, seed=2))] * 2)
def test_one_object_at_two_places(p, q, other):
    p.data = other
    return p + q


@checked(tensor(3), tensor(3, seed=1), tensor(3, seed=2), breaks=1, others=[(THREE, THREE.view(3), tensor(3))])
def test_a_view_of_it_that_was_given(p, view, other):
    p.data = other
    return p + view


def test_the_graph_fails():
    """In eager the data are other ones by then."""

    def fn(p, other, index):
        p.data = other
        y = p * 2
        return y[index]

    compiled = dl.compile(fn, backend="eager")
    for program in (fn, compiled, compiled):
        p, other = tensor(3), tensor(3, seed=1)
        with pytest.raises(IndexError):
            program(p, other, torch.tensor([7]))
        assert p.data_ptr() == other.data_ptr()


@checked(tensor(3), tensor(3, seed=1), graphs=None)
def test_of_a_parameter_made_before(x, other):
    p = nn.Parameter(x * 2)
    p.data = other
    return p * 3
