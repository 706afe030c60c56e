"""What functions say of themselves: signatures of any callable, their binding, defaults and globals."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

import dynamo_lite as dl
from programs import check, tensor
from table import Table

programs = Table()
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
FOUND = inspect.signature(helper)


@programs(tensor(2), recompiles=True)
def of_functions_inside(x):
    def inner(a, b=x, *, c: int = 2):
        return a

    signature = inspect.signature(inner)
    names = [(p.name, p.kind.name, p.default is inspect.Parameter.empty) for p in signature.parameters.values()]
    return x + signature.parameters["c"].default, names, signature.parameters["b"].default is x


@programs(tensor(2))
def of_lambdas_and_decorated_functions(x):
    @passing
    def inner(a, b):
        return a

    kinds = [p.kind.name for p in inspect.signature(lambda a, *b, **c: a).parameters.values()]
    return x + len(inspect.signature(inner).parameters), kinds


@programs(tensor(2))
def of_everything_that_is_called(x):
    partial = inspect.signature(functools.partial(helper, 1, c=2))
    callables = (wrapped, Called(), layer.forward, Layer, layer, Called.__call__, int.from_bytes)
    names = [list(inspect.signature(each).parameters) for each in callables[:-1]]
    raw = inspect.signature(wrapped, follow_wrapped=False)
    return x + 1, names, list(raw.parameters), list(partial.parameters), partial.parameters["c"].default


@programs(tensor(2), breaks=1, recompiles=True)
def of_a_method_inside(x):
    class Thing:
        def f(self, a, b=2):
            return a

    return x + len(inspect.signature(Thing().f).parameters), len(inspect.signature(Thing.f).parameters)


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
    texts = []
    for args, kwargs in (((), {}), ((1,), {"a": 2})):
        try:
            inspect.signature(helper).bind(*args, **kwargs)
        except TypeError as error:
            texts.append(str(error))
    return x + 1, texts


@programs(tensor(2))
def replaced_and_annotated(x):
    signature = inspect.signature(helper)
    shorter = signature.replace(parameters=list(signature.parameters.values())[:2])
    annotated = signature.parameters["c"].annotation, signature.return_annotation
    return x + 1, str(shorter), annotated, str(signature), repr(signature.parameters["c"])


@programs(tensor(2))
def made_from_parameters(x):
    parameter = inspect.Parameter("a", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=3)
    signature = inspect.Signature([parameter])
    return x + signature.parameters["a"].default, str(signature), signature == inspect.signature(lambda a=3: a)


@programs(tensor(2))
def found_outside(x):
    return x + len(FOUND.parameters), FOUND.bind(x, 2).args[1], FOUND.parameters["b"].default, FOUND


@programs(tensor(2))
def argument_specifications(x):
    found = inspect.getfullargspec(helper)
    return x + len(found.args), found.varargs, found.varkw, found.defaults, found.kwonlydefaults


@programs(tensor(2), recompiles=True)
def defaults_of_a_function_inside(x):
    def inner(a, b=x, *, c=2):
        return c

    inner.__kwdefaults__["c"] = 5
    plain = (lambda: 0).__kwdefaults__, (lambda: 0).__defaults__
    return x + inner(1), inner.__defaults__[0] is x, inner, inner.__kwdefaults__, inner.__defaults__, plain


@programs(tensor(2))
def globals_are_read(x):
    found = globals()
    given = found["NUMBER"], found.get("absent", 3), "absent" in found, helper.__globals__["NUMBER"]
    return x + found["NUMBER"], given, found is helper.__globals__, globals() is found, found["helper"](x) + 1


@pytest.mark.parametrize("case", programs.parameters())
def test_program(case):
    case.run()


def test_globals_that_are_written():
    def fn(x):
        globals()["WRITTEN"] = x.shape[0]
        found = WRITTEN + globals()["WRITTEN"]  # noqa: F821
        del globals()["WRITTEN"]
        return x + found, "WRITTEN" in globals()

    check(fn, tensor(3), others=[(tensor(4),)])


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


def test_a_global_that_comes_and_goes():
    def fn(x):
        global PASSING
        PASSING = x.shape[0]
        y = x + PASSING
        del PASSING
        return y

    check(fn, tensor(3))
    globals()["PASSING"] = 1
    compiled = dl.compile(fn, backend="eager")
    compiled(tensor(3))
    assert "PASSING" not in globals()
