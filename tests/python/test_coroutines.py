"""Coroutines and generator functions that are compiled or called by compiled code: they fall back to eager."""

from __future__ import annotations

import asyncio

import torch

import dynamo_lite as dl
from programs import Recorder, check, tensor


def test_coroutines_fall_back_to_eager():
    async def inner(x):
        await asyncio.sleep(0)
        return x * 2

    async def outer(x):
        a, b = await asyncio.gather(inner(x), inner(x + 1))
        return a + b

    def fn(x):
        return asyncio.run(outer(x)) - 1

    check(fn, tensor(2), graphs=None)


def test_a_compiled_coroutine_function_is_awaited():
    async def fn(x):
        y = x + 1
        await asyncio.sleep(0)
        return y * 2

    compiled = dl.compile(fn, backend=Recorder())
    assert torch.equal(asyncio.run(compiled(torch.ones(2))), torch.full((2,), 4.0))


def test_a_compiled_generator_function_is_sent_values():
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
