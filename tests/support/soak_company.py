"""Long runs in company: threads with a model each, greenlets, forked workers beside threads, a pool of processes.

Each takes seconds, returns how often it did what it does, and raises what went wrong in any of them.
"""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

import dynamo_lite as dl
import soak
from dynamo_lite import _C


def steps(number: int, until: float) -> Iterator[None]:
    """Trains a model of this width, and compares each of its outputs with eager's."""
    model = soak.Model(8 + number)
    compiled = dl.compile(model, backend=soak.gm_forward)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    draw = random.Random(number)
    while True:
        x = torch.randn(draw.randrange(1, 5), model.width)
        optimizer.zero_grad()
        found = compiled(x)
        assert torch.allclose(found, model(x), rtol=1e-4), f"model {number} differs from eager"
        found.backward()
        optimizer.step()
        yield
        if time.monotonic() > until:
            return


def count(steps: Iterable[None]) -> int:
    return sum(1 for _ in steps)


def on_threads(works: list[Callable[[], int]], seconds: float) -> int:
    """Returns the sum of the results of several functions, each run on its own thread."""
    found: list[int] = []
    errors: list[BaseException] = []

    def run(work: Callable[[], int]) -> None:
        try:
            found.append(work())
        except BaseException as error:  # raised by the thread that waits
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for each in threads:
        each.start()
    for each in threads:
        each.join(seconds + 60)
    if errors:
        raise errors[0]
    assert len(found) == len(works), "a thread hangs"
    return sum(found)


def soak_models_on_threads(seconds: float, threads: int = 8) -> int:
    soak.one_model(0)  # imports what torch's optimizers and tracers need, which torch's modules don't do on two threads
    until = time.monotonic() + seconds
    done = on_threads([lambda n=n: count(steps(n, until)) for n in range(threads)], seconds)  # type: ignore[misc]
    check_at_rest()
    return done


def check_at_rest() -> None:
    assert _C.current_owner() is None, "somebody compiles though no call is under way"
    assert not _C.hook_installed(), "the hook is in though no call is under way"


# -- greenlets ---------------------------------------------------------------------------------------------------------


def soak_greenlets(seconds: float, greenlets: int = 100) -> int:
    """Runs greenlets that share three compiled functions and switch inside each call."""
    import gevent

    def sleeps(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x * n
        gevent.sleep(0)
        return y + helper(y, n)

    def helper(y: torch.Tensor, n: int) -> torch.Tensor:
        gevent.sleep(0)
        return y - n if n % 2 else y + n

    def raises(x: torch.Tensor, n: int) -> torch.Tensor:
        try:
            gevent.sleep(0)
            raise ValueError(n)
        except ValueError as error:
            gevent.sleep(0)
            return x * error.args[0]

    def in_loop(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n % 3):
            gevent.sleep(0)
            x = x + i
        return x * 2

    def work(number: int) -> int:
        draw, done = random.Random(number), 0
        while done < 2 or time.monotonic() < until:
            fn = draw.choice((sleeps, raises, in_loop))
            n, x = draw.randrange(6), torch.ones(draw.randrange(1, 4))
            found = compiled[fn](x, n)
            assert _C.current_owner() is None, "a greenlet has another one's owner"
            assert torch.equal(found, fn(x, n)), f"{fn.__name__}({x}, {n}) is {found}"
            done += 1
        return done

    compiled = {fn: dl.compile(fn, backend=soak.gm_forward) for fn in (sleeps, raises, in_loop)}
    until = time.monotonic() + seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the recompile limit
        spawned = [gevent.spawn(work, number) for number in range(greenlets)]
        gevent.joinall(spawned, timeout=seconds + 60, raise_error=True)
    check_at_rest()
    return sum(each.get(block=False) for each in spawned)


# -- processes ---------------------------------------------------------------------------------------------------------


def soak_forks(seconds: float, workers: int = 4) -> int:
    """Workers are forked one after the other, as many at a time, beside threads that call, compile and reset."""
    until = time.monotonic() + seconds
    context = multiprocessing.get_context("fork")

    def call() -> int:
        dl.reset()
        return count(steps(0, until))

    def fork() -> int:
        done = 0
        while time.monotonic() < until or not done:
            children = [context.Process(target=forked, args=(number,)) for number in range(workers)]
            for each in children:
                each.start()
            for each in children:
                each.join(60)
                assert each.exitcode == 0, f"a forked worker ended with {each.exitcode}"
            done += workers
        return done

    soak.one_model(0)  # a fork in the middle of an import would leave half a module
    forks: list[int] = []
    on_threads([call, call, lambda: forks.append(fork()) or 0], seconds)  # type: ignore[func-returns-value]
    check_at_rest()
    return forks[0]


def forked(number: int) -> None:
    """Does in a worker the same as its parent."""
    torch.set_num_threads(1)
    check_at_rest()
    assert soak_models_on_threads(0.2, 2) > 0
    check_at_rest()


def soak_pool(seconds: float, workers: int = 2) -> int:
    """Runs processes that share nothing but the program."""
    until, done = time.monotonic() + seconds, 0
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        while time.monotonic() < until or not done:
            made = pool.map(in_pool, range(2 * workers), chunksize=1)
            assert all(made), made
            done += sum(made)
    check_at_rest()
    return done


def in_pool(number: int) -> int:
    torch.set_num_threads(1)
    return count(steps(number, time.monotonic() + 0.5))


def soak_all(seconds: float) -> Iterator[str]:
    """Runs each program for so long. Returns their statistics as text."""
    runs: dict[str, Callable[[float], Any]] = {
        "steps of eight models on eight threads": soak_models_on_threads,
        "calls in a hundred greenlets": soak_greenlets,
        "forked workers beside threads": soak_forks,
        "steps in a pool of processes": soak_pool,
    }
    for what, run in runs.items():
        yield f"{run(seconds)} {what}"
