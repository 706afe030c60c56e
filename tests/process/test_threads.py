"""Threads that hit, miss, compile and reset concurrently."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import torch

import dynamo_lite as dl
from processes import run_program
from programs import Recorder, tensor

THREADS = 8


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Run ``work(number)`` on several threads that start at once; the first error of any is raised here."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            barrier.wait(30)
            work(number)
        except BaseException as error:  # handed to the test's own thread
            errors.append(error)

    workers = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers), "a thread hangs"
    if errors:
        raise errors[0]


def program(x, n):
    y = x * n
    if n % 2:
        y = y + 1
    return y


@pytest.mark.on_cpu
def test_threads_that_only_hit():
    recorder = Recorder()
    compiled = dl.compile(program, backend=recorder)
    compiled(torch.ones(2), 3)

    def work(number):
        for _ in range(500):
            assert torch.equal(compiled(torch.ones(2), 3), torch.full((2,), 4.0))

    together(work)
    assert len(recorder.graphs) == 1


def test_misses_of_different_kinds():
    compiled = dl.compile(program, backend=Recorder())

    def work(number):
        for _ in range(20):
            for n in range(number, number + 3):
                x = torch.ones(number + 1)
                assert torch.equal(compiled(x, n), program(x, n))

    with dl.config.patch(recompile_limit=100):
        together(work)


def test_breaks_on_all_threads():
    def breaks(x, n):
        y = x + n
        dl.graph_break()
        return y * 2

    compiled = dl.compile(breaks, backend=Recorder())

    def work(number):
        for i in range(20):
            assert torch.equal(compiled(torch.ones(2), number), torch.full((2,), 2.0 + 2 * number)), i

    together(work)


def test_reset_under_way():
    compiled = dl.compile(program, backend=Recorder())
    until = time.monotonic() + 1.5

    def work(number):
        while time.monotonic() < until:
            if number == 0:
                dl.reset()
                time.sleep(0.01)
            else:
                assert torch.equal(compiled(torch.ones(2), number % 3), program(torch.ones(2), number % 3))

    together(work)


def test_grad_mode_is_each_threads_own():
    compiled = dl.compile(lambda x: x * 2, backend=Recorder())

    def work(number):
        x = tensor(2, grad=True)
        for _ in range(20):
            with torch.set_grad_enabled(number % 2 == 0):
                assert compiled(x).requires_grad is (number % 2 == 0)

    together(work)


def test_enable_on_all_threads_then_off():
    recorder = Recorder()

    def work(number):
        for _ in range(5):
            assert torch.equal(program(torch.ones(2), 3), torch.full((2,), 4.0))

    with dl.enable(recorder):
        together(work)
    runs = recorder.runs
    assert runs >= THREADS
    together(work)
    assert recorder.runs == runs


def test_backward_runs_on_its_own_threads():
    compiled = dl.compile(lambda x: (x * x).sum(), backend=Recorder())

    def work(number):
        for _ in range(5):
            x = torch.full((2,), float(number), requires_grad=True)
            compiled(x).backward()
            assert torch.equal(x.grad, torch.full((2,), 2.0 * number))

    together(work)


def test_a_thread_that_ends_while_compiled_code_lives():
    made = []

    def work(number):
        compiled = dl.compile(program, backend=Recorder())
        compiled(torch.ones(2), 2)
        made.append(compiled)

    together(work, 2)
    assert torch.equal(made[0](torch.ones(2), 2), torch.full((2,), 2.0))


DAEMON = """
import atexit, threading, time
import dynamo_lite as dl

class Slow:
    def __call__(self, gm, inputs):
        return gm.forward

    def __del__(self):
        for _ in range(100):
            time.sleep(0.01)

stop = threading.Event()
with dl.enable(Slow()):
    threading.Thread(target=stop.wait, daemon=True).start()
    time.sleep(0.1)
dl.reset()
atexit.register(time.sleep, 0.1)
atexit.register(stop.set)
"""


def test_interpreter_exits_while_a_daemon_thread_frees_a_compiled_function():
    """CPython ends such a thread wherever it waits for the GIL, here within destructors."""
    done = run_program(DAEMON)
    assert (done.returncode, done.stderr) == (0, "")
