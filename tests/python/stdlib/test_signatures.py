"""Signatures of any callable, their binding, defaults and globals."""

from __future__ import annotations

import functools
import inspect

import torch

import dynamo_lite as dl
from collector import Programs
from outcomes import outcomes
from programs import check, checked, recompiling, tensor

programs = Programs()
NUMBER = 5


def helper(a, b=1, *rest, c: int = 3, **named) -> int:
    return a


def passing(fn):
    @functools.wraps(fn)
    def call(*args, **kwargs):
        return fn(*args, **kwargs)

    return call


@passing
def wrapped(a, b, *, c=3):
    return a


class Called:
    def __call__(self, q, r=2):
        return q


class Layer(torch.nn.Module):
    def forward(self, a, b=2):
        return a


layer = Layer()


@programs(tensor(2))
@recompiling
def of_functions_inside(x):
    def inner(a, b=x, *, c: int = 2):
        return a

    signature = inspect.signature(inner)
    names = [(p.name, p.kind.name, p.default is inspect.Parameter.empty) for p in signature.parameters.values()]
    return x + signature.parameters["c"].default, names, signature.parameters["b"].default is x


@programs(tensor(2))
def of_everything_that_is_called(x):
    partial = inspect.signature(functools.partial(helper, 1, c=2))
    callables = (wrapped, Called(), layer.forward, Layer, layer, Called.__call__, int.from_bytes)
    names = [list(inspect.signature(each).parameters) for each in callables[:-1]]
    raw = inspect.signature(wrapped, follow_wrapped=False)
    return x + 1, names, list(raw.parameters), list(partial.parameters), partial.parameters["c"].default


@programs(tensor(2))
def static_attributes_of_classes(x):
    """Finds ``__call__`` as `inspect.signature` does from CPython 3.12.3 on."""
    call = inspect.getattr_static(Called, "__call__")
    bound = type(call).__get__(call, Called(), Called)
    return (
        x + 1,
        call is Called.__call__,
        list(inspect.signature(bound).parameters),
        inspect.getattr_static(Called, "y", 4),
    )


@programs(tensor(2))
def bound_to_arguments(x):
    def inner(a, b=2):
        return a * b

    bound = inspect.signature(inner).bind(x)
    bound.apply_defaults()
    partly = inspect.signature(helper).bind_partial(x, c=2)
    return inner(*bound.args, **bound.kwargs), dict(bound.arguments), partly.args[0], partly.kwargs


@programs(tensor(2))
def what_does_not_bind(x):
    return x + 1, outcomes(inspect.signature(helper).bind, lambda: inspect.signature(helper).bind(1, a=2))


@programs(tensor(2))
def argument_specifications(x):
    found = inspect.getfullargspec(helper)
    return x + len(found.args), found.varargs, found.varkw, found.defaults, found.kwonlydefaults


@programs(tensor(2))
def globals_are_read(x):
    found = globals()
    given = found["NUMBER"], found.get("absent", 3), "absent" in found, helper.__globals__["NUMBER"]
    return x + found["NUMBER"], given, found is helper.__globals__, globals() is found, found["helper"](x) + 1


test_program = programs.test()


@checked(tensor(3), others=[(tensor(4),)])
def test_globals_that_are_written(x):
    globals()["WRITTEN"] = x.shape[0]
    found = WRITTEN + globals()["WRITTEN"]  # noqa: F821
    del globals()["WRITTEN"]
    return x + found, "WRITTEN" in globals()


def test_globals_that_change_between_calls():
    compiled = dl.compile(lambda x: x + globals()["CHANGED"], backend="eager")
    x = tensor(3)
    for value in (1, 2):
        globals()["CHANGED"] = value
        assert torch.equal(compiled(x), x + value)


def test_functions_that_come_as_arguments():
    def fn(x, function):
        parameters = inspect.signature(function).parameters
        kept = {name: value for name, value in {"b": 2, "z": 3}.items() if name in parameters}
        return function(x, **kept), list(parameters), [p.default for p in parameters.values()]

    def one(a, b):
        return a * b

    def other(a, z=4, b=1):
        return a + z * b

    check(fn, tensor(3), one, others=[(tensor(3), other)])


def test_defaults_that_change_between_calls():
    def function(a, b=2):
        return a

    def fn(x, function):
        return x + inspect.signature(function).parameters["b"].default

    compiled = dl.compile(fn, backend="eager")
    x = tensor(3)
    assert torch.equal(compiled(x, function), x + 2)
    function.__defaults__ = (7,)
    assert torch.equal(compiled(x, function), x + 7)
