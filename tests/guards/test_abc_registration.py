"""Classes registered with abstract classes between calls, which changes the result of ``isinstance``."""

from __future__ import annotations

import abc
import functools
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder, tensor


@runtime_checkable
class Sized(Protocol):
    def measure(self): ...


@runtime_checkable
class Wide(Protocol):
    width: int


def _classes() -> Any:
    """Returns a new class of the program, an abstract one, and one that derives from the abstract one."""

    class Plain:
        def __init__(self, scale=2):
            self.scale = scale

    class Shape(abc.ABC):  # noqa: B024
        pass

    class Square(Shape):
        pass

    return Plain, Shape, Square


def _by_isinstance(plain, shape, square):
    return lambda x, thing: x * 2 if isinstance(thing, shape) else x + 1


def _by_tuple(plain, shape, square):
    return lambda x, thing: x * 2 if isinstance(thing, (int, (str, shape))) else x + 1


def _by_match(plain, shape, square):
    def fn(x, thing):
        match thing:
            case shape():
                return x * 2
            case _:
                return x + 1

    return fn


def _by_dispatch(plain, shape, square):
    @functools.singledispatch
    def scale(thing, x):
        return x + 1

    @scale.register(shape)
    def _(thing, x):
        return x * 2

    return lambda x, thing: scale(thing, x)


def _by_an_inlined_callee(plain, shape, square):
    def kind(things):
        return [2 if isinstance(each, shape) else 3 for each in things]

    return lambda x, thing: x + sum(kind([thing, 1, None]))


WAYS = [_by_isinstance, _by_tuple, _by_match, _by_dispatch, _by_an_inlined_callee]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("derived", [False, True])
def test_registered_between_calls(way, derived):
    plain, shape, square = _classes()
    fn = way(plain, shape, square)
    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    x, thing = tensor(2), plain()
    before = fn(x, thing)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, thing), before)
    assert len(recorder.graphs) == 1
    (square if derived else shape).register(plain)
    after = fn(x, thing)
    assert str(after) != str(before)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, thing), after)
    assert len(recorder.graphs) == 2


@pytest.mark.parametrize("protocol", [Sized, Wide])
def test_registered_with_a_protocol(protocol):
    class Plain:
        pass

    def fn(x, thing):
        return x * 2 if isinstance(thing, protocol) else x + 1

    compiled = dl.compile(fn, backend=Recorder())
    x, thing = tensor(2), Plain()
    assert torch.equal(compiled(x, thing), fn(x, thing))
    protocol.register(Plain)
    for _ in range(2):
        assert torch.equal(compiled(x, thing), fn(x, thing))


def test_another_registration_makes_no_graph():
    plain, shape, square = _classes()

    def fn(x, thing, table):
        if isinstance(x, (numbers.Number, Mapping, Sequence)) or isinstance(thing, shape):
            return x
        return x * len(table) if isinstance(table, Mapping) else x + 1

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    x, thing = tensor(2), plain()
    for each in range(2 * dl.config.recompile_limit):
        assert torch.equal(compiled(x, thing, {"a": 1, "b": each}), x * 2)
        shape.register(type(f"Other{each}", (), {}))
    assert len(recorder.graphs) == 1
    shape.register(plain)
    assert torch.equal(compiled(x, thing, {"a": 1}), x)


def test_a_positive_result_needs_no_guard():
    def fn(x, table):
        return x * 2 if isinstance(table, Mapping) and isinstance(len(table), numbers.Number) else x

    found = dl.explain(fn)(tensor(2), {})
    assert not [each for each in found.guards if "registered" in each]


def test_a_backend_that_registers():
    plain, shape, square = _classes()

    def backend(gm, example_inputs):
        (shape if len(seen) == 1 else square).register(plain if len(seen) == 1 else type("Other", (), {}))
        seen.append(gm)
        return gm.forward

    seen: list[Any] = []
    fn = _by_isinstance(plain, shape, square)
    compiled = dl.compile(fn, backend=backend)
    x, thing = tensor(2), plain()
    assert torch.equal(compiled(x, thing), x + 1)
    assert torch.equal(compiled(tensor(3), thing), fn(tensor(3), thing))
    assert torch.equal(compiled(x, thing), x * 2)
    assert torch.equal(compiled(tensor(3), thing), tensor(3) * 2)


def test_registered_inside():
    plain, shape, square = _classes()

    def fn(x, thing):
        before = isinstance(thing, shape)
        x = x + 1
        if not before:
            shape.register(plain)
        return x * 2 if isinstance(thing, shape) else x, before

    compiled = dl.compile(fn, backend=Recorder())
    x = tensor(2)
    for before in (False, True, True):
        found = compiled(x, plain())
        assert torch.equal(found[0], (x + 1) * 2)
        assert found[1] is before


def test_classes_in_guards_are_freed():
    import gc
    import weakref

    plain, shape, square = _classes()
    compiled = dl.compile(_by_isinstance(plain, shape, square), backend=Recorder())
    compiled(tensor(2), plain())
    dead = [weakref.ref(each) for each in (plain, shape, square)]
    del plain, shape, square, compiled
    gc.collect()
    assert not any(each() for each in dead)
