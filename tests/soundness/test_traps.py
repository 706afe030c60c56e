"""Traps: programs that a nearly right tracer gets wrong."""

from __future__ import annotations

import asyncio
import sys
import traceback

import pytest
import torch

import dynamo_lite as dl
import reference
from programs import Recorder, check, checked, tensor


def test_recursion_error_is_raised_and_survived():
    def down(x, n):
        return down(x + 1, n + 1)

    def fn(x):
        try:
            return down(x, 0)
        except RecursionError:
            return x * 2

    def program(x):
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(300)
        try:
            return fn(x)
        finally:
            sys.setrecursionlimit(before)

    check(program, tensor(2), graphs=None)


def test_coroutines_are_left_alone():
    async def inner(x):
        await asyncio.sleep(0)
        return x * 2

    async def outer(x):
        a, b = await asyncio.gather(inner(x), inner(x + 1))
        return a + b

    def fn(x):
        return asyncio.run(outer(x)) - 1

    check(fn, tensor(2), graphs=None)


def test_compiled_coroutine_function():
    async def fn(x):
        y = x + 1
        await asyncio.sleep(0)
        return y * 2

    compiled = dl.compile(fn, backend=Recorder())
    assert torch.equal(asyncio.run(compiled(torch.ones(2))), torch.full((2,), 4.0))


def test_compiled_generator_function():
    def fn(x):
        for i in range(3):
            got = yield x * i
            if got:
                yield got
        return x

    compiled = dl.compile(fn, backend=Recorder())
    g = compiled(torch.ones(2))
    assert torch.equal(next(g), torch.zeros(2))
    assert g.send("hello") == "hello"
    assert [float(v.sum()) for v in g] == [2.0, 4.0]


def test_frame_inspection_inside():
    def who():
        return sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno

    def fn(x):
        y = x + 1
        name = who()
        return y * 2, name

    check(fn, tensor(2), graphs=None)


@checked(tensor(2), graphs=1)
def test_noop_functions_that_return_their_argument(x):
    a = x.to(torch.float32)
    b = x.contiguous()
    c = x.expand(2)
    d = x.reshape(2)
    return a, b, c, d, a is x, b is x, c is x


@checked(tensor(2), operators=4)
def test_inplace_returns_its_argument(x):
    y = x.add_(1)
    z = torch.relu_(x)
    w = x.clone()
    v = torch.add(w, 1, out=w) if w.dim() == 9 else w.mul_(2)
    return y is x, z is x, v is w, y, z, v


BASE = tensor(4)


@checked([tensor(4), tensor(2)], operators=2, others=[([BASE, BASE[:2]],)])
@checked([BASE, BASE[:2]], graphs=(0, 1), others=[([tensor(4), tensor(2)],)])
def test_list_and_tensor_with_the_same_storage(items):
    items[0].add_(1)
    return items[1] * 2


@checked(tensor(3), tensor(3, seed=1), operators=3, others=[(BASE[:3], BASE[1:]), (BASE[:3], BASE[:3])])
def test_input_overlapping_only_on_a_later_call(x, y):
    x.mul_(2)
    y.add_(1)
    return x + y


def test_same_list_nested_in_itself_as_argument():
    def fn(x, items):
        items.append(x + 1)
        return items[0] is items, len(items)

    loop = []
    loop.append(loop)
    check(fn, tensor(2), loop, graphs=(0, 1))


def test_argument_changed_by_a_property_of_another():
    class Sneaky:
        def __init__(self, items):
            self.items = items

        @property
        def value(self):
            self.items.append("read")
            return len(self.items)

    def fn(x, sneaky, items):
        return x * sneaky.value + sneaky.value, items

    shared = []
    check(fn, tensor(2), Sneaky(shared), shared, operators=2)


@checked(tensor(2), {"a": 1, "b": 2}, operators=4, others=[(tensor(2), {"b": 2, "a": 1})])
def test_dictionary_order_is_part_of_the_input(x, table):
    for v in table.values():
        x = x * 2 + v
    return x


def test_method_replaced_on_class_and_instance():
    class Thing:
        def get(self):
            return 1

    def fn(x, thing):
        return x * thing.get()

    compiled = dl.compile(fn, backend=Recorder())
    thing, x = Thing(), torch.ones(2)
    assert torch.equal(compiled(x, thing), x)
    Thing.get = lambda self: 2
    assert torch.equal(compiled(x, thing), x * 2)
    thing.get = lambda: 3
    assert torch.equal(compiled(x, thing), x * 3)
    thing.__class__ = type("Other", (), {"get": lambda self: 4})
    del thing.get
    assert torch.equal(compiled(x, thing), x * 4)


def test_code_of_a_callee_replaced():
    def helper(x):
        return x * 2

    def other(x):
        return x * 3

    def fn(x):
        return helper(x)

    compiled = dl.compile(fn, backend=Recorder())
    x = torch.ones(2)
    assert torch.equal(compiled(x), x * 2)
    helper.__code__ = other.__code__
    assert torch.equal(compiled(x), x * 3)


def test_freed_and_reused_addresses_do_not_confuse_guards():
    def fn(x, f):
        return f(x)

    compiled = dl.compile(fn, backend=Recorder())
    x = torch.ones(2)
    for n in range(20):
        f = eval(f"lambda v: v * {n}")
        assert torch.equal(compiled(x, f), x * n)
        del f


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError, StopIteration])
def test_base_exceptions_leave_as_they_are(error):
    def fn(x):
        y = x + 1
        raise error(y.dim())

    compiled = dl.compile(fn, backend=Recorder())
    with pytest.raises(error) as caught:
        compiled(torch.ones(2))
    assert caught.value.args == (1,)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_user_error_is_not_replaced_under_fullgraph():
    def fn(x):
        raise ValueError("mine")

    compiled = dl.compile(fn, backend=Recorder(), fullgraph=True)
    with pytest.raises(ValueError, match="mine") if reference.MODE != "torch" else pytest.raises(Exception):
        compiled(torch.ones(2))


@checked(tensor(2, grad=True), [], graphs=(1, 2))
def test_state_after_an_error_in_a_later_fragment(x, log):
    with torch.no_grad():
        log.append(1)
        y = x + 1
        dl.graph_break()
        log.append(2)
        raise ValueError(y.requires_grad)


def test_star_import_names_and_odd_code():
    scope = {"torch": torch}
    source = "def fn(x):\n    a = 1; b = 2; c = a if b else x\n    return (lambda: (yield))().gi_code.co_name, x + c\n"
    exec(source, scope)
    check(scope["fn"], tensor(2), graphs=(0, 2))


def catches(x, index, log, *more, scale=2.0, **named):
    log.append("before")
    try:
        y = x.index_select(0, index) * scale
    except (IndexError, RuntimeError):
        log.append("caught")
        y = x * 0
    return y, more, named


def in_a_callee(x, index, log):
    def inner(at):
        log.append(total)
        return x.index_select(0, at)

    total = 3
    try:
        return inner(index)
    except IndexError:
        total = 4
        return inner(index * 0) + total


FAILING = [(catches, {}), (catches, {"scale": 3.0, "extra": 1}), (in_a_callee, {})]


@pytest.mark.fails_on_data
@pytest.mark.parametrize("fn, more", FAILING)
def test_operators_that_fail_on_the_data_fail_where_the_program_has_them(fn, more):
    compiled = dl.compile(fn, backend=Recorder())
    x = torch.arange(4.0)
    for at in (1, 9, 2, 9):
        seen = []
        for each in (fn, compiled):
            log = []
            try:
                result = each(x, torch.tensor([at]), log, **more)
            except Exception as error:
                frames = traceback.extract_tb(error.__traceback__)
                result = type(error), [(frame.name, frame.lineno) for frame in frames[1:]]
            seen.append((str(result), log))
        assert seen[0] == seen[1]
