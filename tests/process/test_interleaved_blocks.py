"""Blocks of ``dl.optimize`` and ``dl.enable`` of coroutines, generators and threads, which don't end in the order in
which they began."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite import _C
from programs import Recorder


def program(x):
    return x + 1


def is_compiled_by(*recorders):
    """Tells whether a frame goes to the first of these owners, and not to the others."""
    before = [each.runs for each in recorders]
    assert torch.equal(program(torch.ones(2)), torch.full((2,), 2.0))
    return [each.runs - runs for each, runs in zip(recorders, before, strict=True)] == [1] + [0] * (len(recorders) - 1)


def current(backend):
    return dl.enable(backend, threads="current")


@pytest.fixture(autouse=True)
def nobody_is_left():
    yield
    assert _C.current_owner() is None and not _C.hook_installed()


@pytest.mark.parametrize("block", [dl.optimize, current, dl.enable])
def test_coroutines_that_await_inside_their_blocks(block):
    """Tasks of one thread take turns inside their blocks. The most recently entered block applies."""
    a, b, c = recorders = [Recorder() for _ in range(3)]
    begun = [asyncio.Event() for _ in range(3)]
    ends = [asyncio.Event() for _ in range(3)]

    async def task(number):
        with block(recorders[number]):
            begun[number].set()
            await ends[number].wait()

    async def main():
        tasks = []
        for number in range(3):
            tasks.append(asyncio.create_task(task(number)))
            await begun[number].wait()
            assert is_compiled_by(recorders[number])

        async def leave(number):
            ends[number].set()
            await tasks[number]

        await leave(1)
        assert is_compiled_by(c, a, b)
        await leave(2)
        assert is_compiled_by(a, b, c)
        await leave(0)
        assert _C.current_owner() is None

    asyncio.run(main())


@pytest.mark.parametrize("block", [dl.optimize, current, dl.enable])
def test_generators_that_yield_inside_their_blocks(block):
    def generate(recorder):
        with block(recorder):
            yield is_compiled_by(recorder)

    a, b = Recorder(), Recorder()
    first, second = generate(a), generate(b)
    assert next(first) and next(second)
    first.close()
    assert is_compiled_by(b, a)
    second.close()
    assert _C.current_owner() is None


def test_block_entered_twice():
    a, b = Recorder(), Recorder()
    one = dl.optimize(a)
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(one)
    with dl.optimize(b):
        second.enter_context(one)
        assert is_compiled_by(a, b)
        first.close()
        assert is_compiled_by(b, a)
    assert is_compiled_by(a, b)
    second.close()


def test_compiled_call_between_interleaved_blocks():
    """An explicitly compiled function uses its own owner. The blocks around it are unchanged."""
    a, b, c = (Recorder() for _ in range(3))
    outer, inner = contextlib.ExitStack(), contextlib.ExitStack()
    outer.enter_context(dl.optimize(a))
    inner.enter_context(dl.optimize(b))
    assert torch.equal(dl.compile(program, backend=c)(torch.ones(2)), torch.full((2,), 2.0)) and c.runs == 1
    outer.close()
    assert is_compiled_by(b, a, c)
    inner.close()


def on_a_thread(call):
    worker = threading.Thread(target=call)
    worker.start()
    worker.join(30)
    assert not worker.is_alive()


def test_threads_that_enable_at_once():
    a, b = Recorder(), Recorder()
    first, second = dl.enable(a), dl.enable(b)
    on_a_thread(first.__enter__)
    on_a_thread(second.__enter__)
    assert is_compiled_by(b, a)
    on_a_thread(lambda: first.__exit__(None, None, None))
    assert is_compiled_by(b, a)
    on_a_thread(lambda: second.__exit__(None, None, None))
    assert _C.current_owner() is None


def test_one_object_of_two_threads():
    a, b = Recorder(), Recorder()
    one = dl.optimize(a)
    with one, dl.optimize(b):
        on_a_thread(lambda: one.__exit__(None, None, None))  # it has entered none
        found = []

        def enter():
            with one:
                found.append(is_compiled_by(a, b))
            found.append(_C.current_owner())

        on_a_thread(enter)
        assert found == [True, None] and is_compiled_by(b, a)


def test_thread_ends_inside_its_block():
    blocks = [dl.optimize(Recorder()) for _ in range(2)]

    def enter():
        for each in blocks:
            each.__enter__()

    on_a_thread(enter)
    blocks[0].__exit__(None, None, None)
    assert not _C.hook_installed()
