"""Hooks on tensors created inside, where something that they read is changed before the backward."""

from __future__ import annotations

import functools
import types

import pytest

import dynamo_lite as dl
from dynamo_lite.insight.break_reasons import HookNotTraced
from programs import leaf


def helper(gradient, factor=2.0):
    return gradient * factor


def other_helper(gradient, factor=5.0):
    return gradient * factor + 1


CODE = helper.__code__
PARTIAL = functools.partial(helper, factor=3.0)
OTHER = types.ModuleType("other")
exec("FACTOR = 2.0\ndef scaled(gradient):\n    return gradient * FACTOR", vars(OTHER))


def of_function(x):
    y = x * 1
    y.register_hook(helper)
    return y.sin()


def of_lambda(x):
    y, other = x * 1, x.detach().cos()
    y.register_hook(lambda gradient: helper(gradient) * other)
    return y.sin()


def of_partial(x):
    y = x * 1
    y.register_hook(PARTIAL)
    return y.sin()


def of_global(x):
    y = x * 1
    y.register_hook(OTHER.scaled)
    return y.sin()


class Scale:
    def __init__(self):
        self.factor, self.factors = 2.0, [3.0]

    def by_attributes(self, gradient):
        return helper(gradient) * self.factor * self.factors[-1]

    def or_other(self, other, gradient):
        return gradient * (self.factor if self.factor == 2.0 else other)

    def __call__(self, gradient):
        return gradient * self.factor


SCALE = Scale()


def of_method(x):
    y = x * 1
    y.register_hook(SCALE.by_attributes)
    return y.sin()


def of_callable_object(x):
    y = x * 1
    y.register_hook(SCALE)
    return y.sin()


@pytest.fixture(autouse=True)
def unchanged():
    yield
    restore()


def restore():
    helper.__code__, OTHER.FACTOR, PARTIAL.keywords["factor"] = CODE, 2.0, 3.0
    helper.__defaults__ = (2.0,)
    SCALE.__init__()


CHANGES = {
    "nothing": lambda: None,
    "code": lambda: setattr(helper, "__code__", other_helper.__code__),
    "a default": lambda: setattr(helper, "__defaults__", (7.0,)),
    "a keyword": lambda: PARTIAL.keywords.update(factor=7.0),
    "an attribute": lambda: setattr(SCALE, "factor", 7.0),
    "a list": lambda: SCALE.factors.append(7.0),
    "a global of another module": lambda: setattr(OTHER, "FACTOR", 7.0),
}


def gradient(fn, change):
    restore()
    x = leaf(3)
    y = fn(x)
    change()
    y.sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("fn", [of_function, of_lambda, of_partial, of_global, of_method, of_callable_object])
def test_hook_reads_what_is_there_when_it_runs(fn, what):
    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    expected = gradient(fn, CHANGES[what])
    assert [gradient(compiled, CHANGES[what]) for _ in range(2)] == [expected] * 2


def test_partial_of_the_call_that_is_changed_afterwards():
    def fn(x):
        y = x * 1
        hook = functools.partial(helper, factor=3.0)
        y.register_hook(hook)
        hook.keywords["factor"] = 9.0
        return y.sin()

    assert gradient(dl.compile(fn, backend="eager"), lambda: None) == gradient(fn, lambda: None)
    assert {type(each.reason) for each in dl.explain(fn)(leaf(3)).breaks} == {HookNotTraced}


@pytest.mark.parametrize("fn", [of_method, of_callable_object])
@pytest.mark.parametrize("what", CHANGES)
def test_compiled_hook_of_a_mutable_object_runs_in_eager(fn, what):
    compiled = dl.compile(fn, backend="aot_eager")
    expected = gradient(fn, CHANGES[what])
    assert gradient(compiled, CHANGES[what]) == pytest.approx(expected)


def test_hook_of_an_object_that_is_created_in_the_call():
    def fn(x):
        y, scale = x * 1, Scale()
        y.register_hook(scale.by_attributes)
        return y.sin()

    assert gradient(dl.compile(fn, backend="eager", fullgraph=True), lambda: None) == gradient(fn, lambda: None)


def test_hook_of_an_object_that_the_call_returns_breaks():
    """The program may change it before the backward."""

    def fn(x):
        y, scale = x * 1, Scale()
        y.register_hook(scale.by_attributes)
        return y.sin(), scale

    def outcome(called):
        x = leaf(3)
        y, scale = called(x)
        scale.factor = 5.0
        y.sum().backward()
        return x.grad.tolist()

    assert outcome(dl.compile(fn, backend="eager")) == outcome(fn)
    assert {type(each.reason) for each in dl.explain(fn)(leaf(3)).breaks} == {HookNotTraced}


def test_hook_reads_its_own_object_of_each_call():
    def fn(x, scale):
        y = x * 1
        y.register_hook(scale)
        return y.sin()

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for called in (fn, compiled):
        scales, xs = [Scale(), Scale()], [leaf(3), leaf(3)]
        results = [called(x, scale) for x, scale in zip(xs, scales, strict=True)]
        scales[0].factor = 10.0
        sum(results).sum().backward()
        assert xs[0].grad.tolist() == pytest.approx((xs[1].grad * 5).tolist())


def test_hook_holds_a_tensor_that_it_uses_only_after_a_change():
    def fn(x, scale):
        y, other = x * 1, x.detach().cos()
        y.register_hook(functools.partial(Scale.or_other, scale, other))
        return y.sin()

    def outcome(called):
        x, scale = leaf(3), Scale()
        y = called(x, scale)
        scale.factor = 5.0
        y.sum().backward()
        return x.grad.tolist()

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    assert [outcome(compiled) for _ in range(2)] == [outcome(fn)] * 2
