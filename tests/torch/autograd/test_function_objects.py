"""Instances of ``torch.autograd.Function`` created inside, which warns."""

from __future__ import annotations

import warnings

import pytest
import sympy  # noqa: F401  (torch imports it with the first graph, and it adds a filter)
import torch

import dynamo_lite as dl
from programs import Recorder, checked, tensor, with_gradients, without_breaks
from shared_programs import Square


class Scaled(Square):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor


SHAPES = [(tensor(4, grad=True),), (tensor(2, 5, grad=True),), (tensor(6),)]


@checked(tensor(3, grad=True), others=SHAPES)
@with_gradients
@without_breaks
def test_applied_twice(x):
    scaled = Scaled(3)
    return scaled.apply(x) * scaled.factor + scaled.apply(x * 2)


@checked(tensor(3, grad=True), graphs=2)
@with_gradients
def test_one_that_survives_a_break(x):
    scaled = Scaled(3)
    y = scaled.apply(x)
    torch._dynamo.graph_break()
    return scaled.apply(y) * scaled.factor


def test_one_that_is_returned():
    def fn(x):
        scaled = Scaled(3)
        return scaled.apply(x), scaled

    result, scaled = dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))
    assert type(scaled) is Scaled and vars(scaled) == {"factor": 3}
    assert torch.equal(scaled.apply(result), Square.apply(Square.apply(tensor(3))))


@pytest.mark.parametrize("action", ["default", "once", "ignore", "module"])
def test_as_often_as_eager_warns(action):
    def shown(transform):
        def fn(x):
            return Square().apply(x) + 1

        compiled = transform(fn)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            for _ in range(3):
                compiled(tensor(3))
        return [(each.category, str(each.message), each.filename, each.lineno) for each in caught]

    recorder = Recorder()
    assert shown(lambda f: f) == shown(lambda f: dl.compile(f, backend=recorder))
    assert len(recorder.graphs) == 1 and dl.counters.graph_breaks == 0


def test_a_filter_that_raises():
    def fn(x):
        y = x + 1
        return Square().apply(y)

    compiled = dl.compile(fn, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled(tensor(3))
        warnings.filterwarnings("error", "no match")
        warnings.filterwarnings("error", ".*should not be instantiated")
        for _ in range(2):
            with pytest.raises(DeprecationWarning, match="should not be instantiated") as raised:
                compiled(tensor(3))
            assert [each.name for each in raised.traceback][-2:] == ["fn", "__init__"]
    assert "warnings.warn() has a side effect" in str(dl.counters.break_reasons)


def test_apply_that_is_passed_or_replaced():
    class Doubled(Square):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

    class Late(Square):
        pass

    square = Square.apply

    def fn(x, apply):
        return apply(x) + square(x) + Late.apply(x)

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, fullgraph=True)
    for cls, graphs in ((Square, 1), (Square, 1), (Doubled, 2), (Square, 2)):
        x = tensor(3, grad=True)
        assert torch.equal(compiled(x, cls.apply), fn(x, cls.apply)) and len(recorder.graphs) == graphs
    Late.apply = classmethod(lambda cls, x: x + 5)
    assert torch.equal(compiled(x, Square.apply), fn(x, Square.apply))
