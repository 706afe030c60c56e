"""``copy.deepcopy`` and ``copy.copy`` of modules, parameters and tensors inside."""

from __future__ import annotations

import copy

from torch import nn

from programs import approximate, built, check, checked, compiled_by, tensor, with_gradients, without_breaks
from weights import seeded


def net():
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 3, bias=False))
    m[2].weight = nn.Parameter(m[0].weight.detach().t().clone(), requires_grad=False)
    return seeded(m)


@checked(net(), tensor(2, 3), graphs=None)
@with_gradients
def test_a_module(m, x):
    other = copy.deepcopy(m)
    return other(x), m(x), other


def test_shared_parameters_stay_shared():
    def fn(m, x):
        other = copy.deepcopy(m)
        return other[1](other[0](x)), other[0].weight is other[1].weight, other[0].weight is m[0].weight, other

    m = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    m[1].weight = m[0].weight
    check(with_gradients(fn), seeded(m), tensor(2, 3), graphs=None)


@checked(net(), tensor(2, 3), graphs=None)
@with_gradients
@compiled_by("aot_eager")
@approximate
def test_a_copied_module_takes_gradients(m, x):
    other = copy.deepcopy(m)
    return other, (other(x) * m(x)).sum()


@checked(net(), tensor(2, 3))
@with_gradients
@without_breaks
def test_a_shallow_copy(m, x):
    other = copy.copy(m)
    other.training = False
    other.note = "other"
    return other(x), other[0] is m[0], m.training, hasattr(m, "note")


def test_tensors():
    def fn(a, b, x):
        one, other = copy.deepcopy([a, b])
        one.add_(1)
        return one, other, other.is_leaf, (other * x).sum(), copy.deepcopy(x.t()).stride()

    check(with_gradients(fn), tensor(3), tensor(3, grad=True), tensor(2, 3), graphs=None)

    def plain(a, b):
        both = copy.deepcopy({"a": a, "b": [b, a]})
        return both, both["a"] is both["b"][1], both["b"][0].is_leaf

    check(with_gradients(plain), tensor(3), tensor(2, 3, grad=True), graphs=None)


def test_tensors_that_share_memory():
    def fn(x, y):
        one, other = copy.deepcopy([x, y])
        one.add_(1)
        return one, other

    def program():
        return lambda x, part: fn(x, x[:2] if part else x * 2)

    check(built(program), tensor(3), False, graphs=None, others=[(tensor(3), True), (tensor(3), False)])

    def build():
        x = tensor(3)
        pairs = [(x, tensor(2)), (x, x[1:]), (x[:2], tensor(2)), (x[:2], tensor(2)), (x, tensor(2))]
        return lambda at, z: (fn(*pairs[at]), z + 1)

    check(built(build), 0, tensor(2), graphs=None, others=[(at, tensor(2)) for at in range(5)])


@checked(tensor(3, grad=True), graphs=None)
@with_gradients
def test_results_are_not_copied(x):
    try:
        copy.deepcopy(x * 2)
    except RuntimeError as error:
        return str(error)[:30], x + 1
