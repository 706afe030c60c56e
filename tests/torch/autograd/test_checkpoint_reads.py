"""Functions under `checkpoint` that read what is different when they are called again in the backward."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import dynamo_lite as dl
from dynamo_lite.insight.break_reasons import CheckpointCall, UnknownInBackward
from programs import leaf

FACTOR = 2.0


def set_factor(value):
    global FACTOR
    FACTOR = value


def outcome(fn, differentiate):
    """The result, and the gradient or the error."""
    set_factor(2.0)
    x = leaf(3)
    y = fn(x)
    set_factor(3.0)
    try:
        return y.tolist(), differentiate(y, x).tolist()
    except RuntimeError as error:
        return y.tolist(), str(error)


def backward(y, x):
    y.sum().backward()
    return x.grad


def grad(y, x):
    return torch.autograd.grad(y.sum(), x)[0]


def check(function, reentrant, backend="eager", how=(backward, grad)):
    def fn(x):
        return checkpoint(function, x * 1, use_reentrant=reentrant)

    compiled = dl.compile(fn, backend=backend)
    for differentiate in how:
        expected = outcome(fn, differentiate)
        assert [outcome(compiled, differentiate) for _ in range(2)] == [expected] * 2
    return [type(each.reason) for each in dl.explain(fn)(leaf(3)).breaks]


def by_grad_mode(x):
    return x.sin() * (2 if torch.is_grad_enabled() else 3)


def by_requires_grad(x):
    y = x.sin()
    return y * (2 if y.requires_grad else 3)


def by_is_leaf(x):
    return x.sin() * (2 if x.is_leaf else 3)


def by_global(x):
    return (x * FACTOR).sin()


@pytest.mark.parametrize("function", [by_grad_mode, by_requires_grad, by_is_leaf])
def test_reentrant_one_that_reads_the_history(function):
    """It runs without gradients first."""
    assert check(function, True) == [UnknownInBackward]
    assert check(function, False) == []


def test_reentrant_one_that_asks_what_is_always_the_same():
    assert check(lambda x: x.sin() * (2 if x.requires_grad else 3), True) == []


def test_reentrant_one_in_a_compiler():
    assert check(by_requires_grad, True, "aot_eager", [backward]) == [UnknownInBackward]


def test_reentrant_one_with_a_parameter_of_its_own():
    weight = leaf(3, seed=1)

    def fn(x):
        return checkpoint(lambda x: x.sin() * weight, x * 2, use_reentrant=True)

    found = []
    for called in (fn, dl.compile(fn, backend="eager", fullgraph=True)):
        x, weight.grad = leaf(3), None
        called(x).sum().backward()
        found.append((x.grad, weight.grad))
    assert all(map(torch.equal, *found))


def test_reentrant_one_by_another_thing_than_backward():
    """Torch refuses it."""
    assert check(lambda x: x.sin(), True) == []


@pytest.mark.parametrize("reentrant", [False, True])
def test_global_that_is_assigned_before_the_backward(reentrant):
    assert check(by_global, reentrant) == [CheckpointCall]
