"""Graphs that would mutate memory shared with another input: they end before that input is used."""

from __future__ import annotations

import torch
from torch import nn

from programs import check, checked, tensor, with_gradients

X = tensor(4)


def test_a_view_that_comes_after_the_write():
    def fn(x, parts):
        y = x.sin()
        x.add_(1)
        z = y * 2
        w = parts[0] * 3
        return w + z.sum()

    def calls(x, n):
        return fn(x, [x[1:]])

    x = tensor(4)
    check(fn, x, [x[1:]], graphs=2, breaks=1)
    check(calls, tensor(4), 1)


@checked(X, [X[1:]], graphs=(1, 2), breaks=1)
def test_a_view_that_comes_before_the_write(x, parts):
    w = parts[0] * 3
    z = w.sin()
    x.add_(1)
    return z, x * 2


@checked(X, [X[1:]], graphs=(1, 2))
def test_the_view_is_mutated(x, parts):
    y = x.sin()
    z = y * 2
    parts[0].add_(1)
    return z.cos() + x.sum()


def test_two_pairs_of_inputs_share_memory():
    def fn(x, y, parts):
        x.add_(1)
        z = parts[0] * 2
        y.add_(1)
        return z.sum() + (parts[1] * 2).sum()

    x, y = tensor(4), tensor(4, seed=1)
    check(fn, x, y, [x[1:], y[1:]], graphs=(2, 3))


@checked(X, [X[:1], X[1:3], X[2:]], graphs=None)
def test_memory_is_shared_in_a_loop(x, parts):
    total = x.sum()
    for part in parts:
        x.mul_(2)
        total = total + part.sum()
    return total.sin()


def test_the_data_of_weights_before_a_module_that_has_them():
    def fn(net, data, x):
        y = net(x)
        with torch.no_grad():
            for each in data:
                each.mul_(0.9)
        z = x.sin()
        return y + 1, net(z)

    torch.manual_seed(0)
    net = nn.Linear(3, 3)
    check(with_gradients(fn), net, [each.detach() for each in net.parameters()], tensor(2, 3), graphs=None)


@checked(tensor(4), [tensor(3, seed=1)], others=[(X, [X[1:]]), (tensor(4), [tensor(3, seed=1)])])
def test_another_call_has_other_memory(x, parts):
    y = x.sin()
    x.add_(1)
    z = y * 2
    return (parts[0] * 3).sum() + z


BASE = tensor(4)


@checked([tensor(4), tensor(2)], operators=2, others=[([BASE, BASE[:2]],)])
@checked([BASE, BASE[:2]], graphs=(0, 1), others=[([tensor(4), tensor(2)],)])
def test_list_and_tensor_with_the_same_storage(items):
    items[0].add_(1)
    return items[1] * 2


@checked(tensor(3), tensor(3, seed=1), operators=3, others=[(BASE[:3], BASE[1:]), (BASE[:3], BASE[:3])])
def test_inputs_that_overlap_only_in_a_later_call(x, y):
    x.mul_(2)
    y.add_(1)
    return x + y
