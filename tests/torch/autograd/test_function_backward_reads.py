"""Functions whose backward reads state that the program changes between the call and the backward."""

from __future__ import annotations

import functools
import math
import sys
import types

import pytest
import torch

import backward_reads
import dynamo_lite as dl
from backward_reads import KINDS, SETTINGS
from dynamo_lite.insight.break_reasons import BackwardReads
from programs import check, checked, recompiling, tensor, with_gradients, without_breaks
from small_functions import Twice

FACTOR = 2.0


def set_factor(value):
    global FACTOR
    FACTOR = value


def gradients(make, calls=3):
    """Compares the gradients of a program that is made twice, eager and compiled."""
    found = []
    for compile in (lambda fn: fn, lambda fn: dl.compile(fn, backend="eager")):
        backward_reads.SCALE, SETTINGS["scale"] = 2.0, 2.0
        fn = compile(make())
        for _ in range(calls):
            x = tensor(3, grad=True)
            fn(x).sum().backward()
            found.append(x.grad)
    assert all(map(torch.equal, found[:calls], found[calls:]))


@pytest.mark.parametrize("kind", KINDS)
def test_changed_after_the_call(kind):
    def make():
        apply, change = kind()

        def fn(x):
            y = apply(x * 2)
            change()
            return y.sin()

        return fn

    gradients(make)


@pytest.mark.parametrize("kind", KINDS)
def test_changed_before_the_call(kind):
    def make():
        apply, change = kind()

        def fn(x):
            change()
            return apply(x * 2).sin()

        return fn

    gradients(make)


@pytest.mark.parametrize("kind", KINDS)
def test_the_graph_breaks_at_the_call(kind):
    apply, change = kind()

    def fn(x):
        y = apply(x * 2).sin()
        seen.append(len(seen))
        return y

    seen = []
    check(with_gradients(recompiling(fn)), tensor(3, grad=True), graphs=2)
    (broken, *_) = dl.explain(fn)(tensor(3, grad=True)).breaks
    assert isinstance(broken.reason, BackwardReads)


LIMIT, KIND = 2.0, torch.float64


def scaled(gradient, by=3.0):
    return gradient.to(KIND).to(torch.float32) * by * LIMIT


def with_contiguous(backward):
    def wrapper(ctx, gradient):
        return backward(ctx, gradient.contiguous())

    return wrapper


class OfConstants(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factors):
        ctx.factors, ctx.shapes = factors, [tuple(each) for each in (x.shape, (2, 3))]
        return x * 2

    @staticmethod
    @with_contiguous
    def backward(ctx, gradient):
        return scaled(gradient) * ctx.factors[0] * ctx.shapes[1][0] * math.pi, None


def test_a_constant_that_is_assigned_from_outside():
    """A stated limit, as in torch.compile: the value at the call counts, for no code of the module assigns to it."""
    found = []
    for compile in (lambda fn: fn, lambda fn: dl.compile(fn, backend="eager", fullgraph=True)):
        x = tensor(3, grad=True)
        y = compile(lambda x: OfConstants.apply(x * 2, (3.0, "a")))(x)
        setattr(sys.modules[__name__], "LIMIT", 4.0)
        y.sum().backward()
        setattr(sys.modules[__name__], "LIMIT", 2.0)
        found.append(x.grad)
    torch.testing.assert_close(found[0], found[1] * 2)


@functools.lru_cache
def set_kind(value):
    global KIND_OF_CACHED
    KIND_OF_CACHED = value


KIND_OF_CACHED = 2.0


class OfWhatACachedFunctionAssigns(Twice):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * KIND_OF_CACHED


def test_a_cached_function_assigns():
    gradients(lambda: lambda x: OfWhatACachedFunctionAssigns.apply(x * 2))
    with pytest.raises(dl.exc.Unsupported, match="KIND_OF_CACHED, which is assigned to"):
        dl.compile(OfWhatACachedFunctionAssigns.apply, backend="eager", fullgraph=True)(tensor(3, grad=True))


@checked(tensor(3, grad=True))
@with_gradients
@without_breaks
def test_constants_are_captured(x):
    return OfConstants.apply(x * 2, (3.0, "a")).sin()


def scaled_by(scale):
    """Returns ``apply`` of a Function whose backward is ``scale``."""

    class Scaled(Twice):
        @staticmethod
        def backward(ctx, gradient):
            return scale(gradient)

    return Scaled.apply


def test_code_of_a_function_that_the_backward_calls():
    """It is replaced between the call and the backward."""

    def twice(x):
        return x * 2

    def thrice(x):
        return x * 3

    code = twice.__code__
    for compile in (lambda fn: fn, lambda fn: dl.compile(fn, backend="eager", fullgraph=True)):
        fn = compile(scaled_by(twice))
        for new, expected in ((code, 2), (thrice.__code__, 3), (code, 2)):
            x = tensor(3, grad=True)
            y = fn(x)
            twice.__code__ = new
            y.sum().backward()
            assert torch.equal(x.grad, torch.full((3,), float(expected)))


class Scales:
    def twice(gradient, factor=2, *, power=1):
        return gradient * factor**power

    static = staticmethod(twice)

    @classmethod
    def of_class(cls, gradient):
        return gradient * 2


@pytest.mark.changes_what_is_guarded
@pytest.mark.parametrize(
    "scale, changed, name, value",
    [
        (lambda gradient: Scales.twice(gradient), Scales.twice, "__defaults__", (5,)),
        (lambda gradient: Scales.twice(gradient), Scales.twice, "__kwdefaults__", {"power": 2}),
        (lambda gradient: Scales.twice(gradient), Scales, "twice", lambda gradient: gradient * 5),
        (lambda gradient: Scales.static(gradient), Scales, "static", staticmethod(lambda gradient: gradient * 5)),
        (
            lambda gradient: Scales.of_class(gradient),
            Scales,
            "of_class",
            classmethod(lambda cls, gradient: gradient * 5),
        ),
    ],
)
def test_function_or_method_that_the_backward_calls(scale, changed, name, value, monkeypatch):
    """It is replaced between the call and the backward."""
    apply, found = scaled_by(scale), []
    for compile in (lambda fn: fn, lambda fn: dl.compile(fn, backend="eager", fullgraph=True)):
        x = tensor(3, grad=True)
        y = compile(apply)(x)
        with monkeypatch.context() as patch:
            patch.setattr(changed, name, value)
            y.sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1] != [2.0] * 3


def test_backward_that_is_replaced():
    class Scaled(Twice):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    x = tensor(3, grad=True)
    y = dl.compile(lambda x: Scaled.apply(x), backend="eager", fullgraph=True)(x)
    Scaled.backward = staticmethod(lambda ctx, gradient: gradient * 7)
    y.sum().backward()
    assert x.grad.tolist() == [7.0] * 3


def test_global_that_a_transform_in_the_backward_reads():
    class Scaled(Twice):
        @staticmethod
        def backward(ctx, gradient):
            return torch.func.grad(lambda each: (each * FACTOR).sum())(gradient) * gradient

    def outcome(fn):
        set_factor(2.0)
        x = tensor(3, grad=True)
        y = fn(x)
        set_factor(5.0)
        y.sum().backward()
        set_factor(2.0)
        return x.grad.tolist()

    def fn(x):
        return Scaled.apply(x * 1)

    assert outcome(dl.compile(fn, backend="eager")) == outcome(fn)
    assert [type(each.reason) for each in dl.explain(fn)(tensor(3, grad=True)).breaks] == [BackwardReads]


SOURCE = """
import torch
FACTOR = 2.0
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        return gradient * {}
"""


@pytest.mark.parametrize("read", ["globals()['FACTOR']", "globals().get('FACTOR')", "dict(globals())['FACTOR']"])
def test_a_backward_that_reads_the_dict_of_globals_breaks(read):
    """Whoever has the dict may mutate it, so the graph breaks."""
    module = types.ModuleType("other")
    exec(SOURCE.format(read), vars(module))
    found = []
    for called in (module.Scaled.apply, dl.compile(module.Scaled.apply, backend="eager")):
        module.FACTOR, x = 2.0, tensor(3, grad=True)
        y = called(x)
        module.FACTOR = 3.0
        y.sum().backward()
        found.append(x.grad)
    assert torch.equal(*found)
    assert {type(each.reason) for each in dl.explain(module.Scaled.apply)(tensor(3, grad=True)).breaks} == {
        BackwardReads
    }
