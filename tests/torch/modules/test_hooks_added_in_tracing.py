"""Hooks on modules that are registered and removed inside."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from programs import Program, check, checked, recompiling, repeated, tensor, with_gradients, without_breaks
from weights import seeded


def net():
    return seeded(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)))


@checked(net(), tensor(2, 3))
@with_gradients
@without_breaks
def test_features_are_taken_by_a_hook(m, x):
    found = {}
    handle = m[0].register_forward_hook(lambda module, args, out: found.__setitem__("first", out))
    y = m(x)
    handle.remove()
    return y, found["first"], len(m[0]._forward_hooks)


def test_a_context_of_hooks():
    def fn(m, x):
        with m[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,)), m[2].register_forward_hook(scaled):
            y = m(x)
        return y, m(x)

    def scaled(module, args, kwargs, out=None):
        return kwargs * 3

    check(with_gradients(without_breaks(fn)), net(), tensor(2, 3))


def test_hooks_that_stay():
    def fn(m, x):
        first = m.register_forward_hook(lambda module, args, out: out + 1)
        m.register_forward_hook(lambda module, args, kwargs, out: out * 2, with_kwargs=True, prepend=True)
        m.register_forward_pre_hook(lambda module, args: (args[0] * 3,), prepend=True)
        y = m(x)
        return y, first, len(m._forward_hooks)

    def program():
        m = net()

        def run(x):
            y, handle, count = fn(m, x)
            z = m(x)
            handle.remove()
            return y, z, m(x), count, len(m._forward_hooks), list(m._forward_hooks_with_kwargs.values())

        return run

    check(Program(program, is_built=True, calls=3, recompiles=True, has_gradients=True), tensor(2, 3))


def test_hooks_on_a_module_made_inside():
    def fn(x):
        m = nn.Linear(3, 3)
        handles = [m.register_forward_hook(lambda module, args, out, by=by: out * by) for by in (2, 3)]
        handles[0].remove()
        return m(x), m, handles[1]

    def run(x):
        y, m, handle = fn(x)
        assert list(m._forward_hooks) == [handle.id]
        again = m(x)
        handle.remove()
        return y, again, m(x), len(m._forward_hooks)

    check(with_gradients(recompiling(run)), tensor(2, 3), graphs=None, breaks=None)


@checked(net(), tensor(2, 3), graphs=None)
@recompiling
def test_numbers_are_told_apart(m, x):
    first = m.register_forward_hook(lambda module, args, out: out + 1)
    other = m.register_forward_hook(lambda module, args, out: out * 2)
    first.remove()
    first.remove()
    found = m(x), first.id == other.id, other.id in m._forward_hooks, first.id in m._forward_hooks
    other.remove()
    return found


@checked(net(), tensor(2, 3), graphs=2, breaks=1, all_graphs=(2, 4))
@repeated(6)
@with_gradients
@recompiling
def test_a_handle_over_a_break(m, x):
    handle = m[0].register_forward_hook(lambda module, args, out: out * 2)
    y = m(x)
    torch._dynamo.graph_break()
    handle.remove()
    return y, m(x)


@checked(net(), tensor(2, 3), graphs=None)
@with_gradients
def test_a_hook_for_all_modules(m, x):
    handle = register_module_forward_hook(lambda module, args, out: out + 1)
    y = m(x)
    handle.remove()
    return y, m(x)


def test_a_weight_is_masked_inside():
    from torch.nn.utils import prune

    def fn(m, x):
        if not prune.is_pruned(m):
            prune.l1_unstructured(m, "weight", amount=0.3)
        return m(x)

    def program():
        m = seeded(nn.Linear(3, 3))
        return lambda x: (fn(m, x), [name for name, _ in m.named_parameters()], m.weight_mask, m.weight_orig)

    check(Program(program, is_built=True, calls=3, recompiles=True, has_gradients=True), tensor(2, 3))
