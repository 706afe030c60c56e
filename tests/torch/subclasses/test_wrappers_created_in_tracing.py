"""Wrapper subclasses that programs create during tracing, and the attributes of their classes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import check, checked, compiled_by, ints, tensor, with_gradients
from wrapper_tensors import Kind, Pair, Quantised, quantised


@checked(tensor(3), tensor(3, seed=1), others=[(tensor(3, seed=2), tensor(3))], all_graphs=1)
def test_wrapper_created_in_tracing(x, y):
    made = Pair(x * 2, y)
    return made + 1, made, (made * 2).a, made.b is y, made.shape, made.both(), type(made)


@checked(tensor(3), tensor(3, seed=1))
def test_created_wrapper_is_mutated(x, y):
    made = Pair(x, y)
    made.add_(1)
    made.a.mul_(2)
    return made, x + 1, made.sum()


def test_created_wrapper_under_compilers():
    def fn(x, y):
        made = Pair(x, y)
        made.add_(1)
        return made, made * 2, x + 1, Quantised(x.to(torch.int8), y, Kind(torch.float32, 0)).scale

    given = [(tensor(3, seed=seed), tensor(3, seed=seed + 1)) for seed in range(2)]
    check(compiled_by("aot_eager")(fn), *given[0], others=given[1:], graphs=None)


@checked(tensor(3), tensor(3, seed=1), graphs=2, breaks=1)
def test_created_wrapper_is_live_across_a_break(x, y):
    made = Pair(x * 2, y)
    again = made + 1
    print("here")
    return made + again, again, made


@checked(tensor(3), graphs=None, breaks=None)
def test_two_equal_wrappers_are_created(x):
    one, other = Pair(x, x), Pair(x, x)
    return one is other, one, other, [one, one], one.a is other.b


KIND = Kind(torch.float32, 0)


@checked(tensor(2, 3), tensor(4, 3))
def test_quantised_inside(x, w):
    scale = w.abs().amax(1, keepdim=True) / 127
    made = Quantised((w / scale).round().to(torch.int8), scale, KIND)
    return F.linear(x, made), made, made.kind is KIND


def test_context_of_a_created_wrapper_changes_between_calls(monkeypatch):
    kind = Kind(torch.float32, 0)
    monkeypatch.setattr(f"{__name__}.KIND", kind)

    def fn(x, w):
        return F.linear(x, Quantised(w, x.sum(), KIND))

    x, w = tensor(2, 3), ints(4, 3).to(torch.int8)
    compiled = dl.compile(fn, backend="eager")
    for shift in (0, 1, 0, 2, 1):
        kind.shift = shift
        assert torch.equal(compiled(x, w), fn(x, w))
    monkeypatch.setattr(f"{__name__}.KIND", Kind(torch.float32, 1))
    kind.shift = 5
    assert torch.equal(compiled(x, w), fn(x, w))


@checked(tensor(2, 3), quantised(4, 3), graphs=None, breaks=None)
def test_context_changed_in_tracing(x, w):
    before = x @ w.t()
    w.kind.shift += 1
    return before, x @ w.t()


def test_context_changed_before_the_wrapper_is_created():
    def fn(x, w, kind):
        kind.shift += 1
        return x @ w.t()

    made = quantised(4, 3)
    check(fn, tensor(2, 3), made, made.kind, graphs=None, breaks=None)


@checked(tensor(2, 3), ints(4, 3).to(torch.int8), graphs=None, breaks=None)
def test_context_object_created_in_tracing(x, w):
    made = Quantised(w, x.sum(), Kind(torch.float32, 2))
    return F.linear(x, made), made


@checked(tensor(3, grad=True), tensor(3, seed=1, grad=True), graphs=None, breaks=None)
@with_gradients
def test_created_wrapper_of_tensors_that_require_gradients(x, y):
    made = Pair(x, y)
    return (made * 2).a + x
