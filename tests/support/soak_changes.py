"""Long runs in which things change while frames are compiled: values that guards cover, code objects that are
deallocated, backends that hang, owners that only a cycle holds, exceptions that other threads set.

Each takes seconds, returns how often it did what it does, and raises what went wrong.
"""

from __future__ import annotations

import ctypes
import gc
import random
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

import dynamo_lite as dl
import soak
import soak_company
from dynamo_lite.compiler import one_at_a_time

Function = Callable[..., Any]

LEAST = 5  # rounds, however slow the machine is: a first compilation imports for a second or more


class Changing:
    """A value that a program reads while another thread writes it."""

    def __init__(self) -> None:
        self.mode, self.factors, self.calls = "add", [2], 0

    def change(self, draw: random.Random) -> None:
        which = draw.randrange(3)
        if which == 0:
            self.mode = draw.choice(("add", "subtract"))
        elif which == 1:
            self.factors = [draw.randrange(3) for _ in range(draw.randrange(1, 3))]
        else:
            self.calls += 1


def reads(x: torch.Tensor, changing: Changing) -> torch.Tensor:
    mode, factor = changing.mode, changing.factors[0]
    return x * factor + 1 if mode == "add" else x * factor - 1


def soak_changed_values(seconds: float) -> int:
    """Each result is that of some state which the object had: one more or one less than a multiple of x."""
    soak.one_model(0)  # imports what tracers need, which takes seconds
    changing, until, calls, ended = Changing(), time.monotonic() + seconds, 0, threading.Event()
    possible = [factor + step for factor in range(3) for step in (1, -1)]

    def change() -> None:
        draw = random.Random(0)
        while not ended.is_set():
            changing.change(draw)
            time.sleep(0.0002)

    def slow(gm: torch.fx.GraphModule, inputs: list[Any]) -> Function:
        time.sleep(0.001)
        return gm.forward

    writer = threading.Thread(target=change, daemon=True)
    writer.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the recompile limit, and frames that are always outdated
            while time.monotonic() < until or calls < 10 * LEAST:
                compiled = dl.compile(reads, backend=slow)
                for _ in range(10):
                    found = compiled(torch.ones(1), changing).item()
                    assert found in possible, f"{found} is the result of no state"
                    calls += 1
    finally:
        ended.set()
        writer.join()
    soak_company.check_at_rest()
    return calls


class Result:
    """A backend's result whose finalizer inspects all owners of the code."""

    def __init__(self, forward: Function, compiled: list[Any]) -> None:
        self.forward, self.compiled = forward, compiled

    def __call__(self, *inputs: torch.Tensor) -> Any:
        return self.forward(*inputs)

    def __del__(self) -> None:
        for each in self.compiled:
            dl.entries(each)


def soak_deallocated_code(seconds: float) -> int:
    """Code objects with entries of several owners, some of which end before the code does."""
    until, done, draw = time.monotonic() + seconds, 0, random.Random(0)
    while time.monotonic() < until or done < LEAST:
        scope: dict[str, Any] = {}
        exec("def program(x):\n    return x * 2 + 1", scope)
        code = scope.pop("program").__code__
        compiled: list[Any] = []
        for _ in range(draw.randrange(1, 6)):
            fn = types.FunctionType(code, {})
            backend = lambda gm, inputs, compiled=compiled: Result(gm.forward, compiled)  # noqa: E731
            compiled.append(dl.compile(fn, backend=backend))
        for each in compiled:
            assert each(torch.ones(1)).item() == 3
        del compiled[: draw.randrange(len(compiled))]
        if draw.random() < 0.5:
            dl.reset()
        for each in compiled:
            each.__wrapped__.__code__ = soak.branches.__code__
        held = weakref.ref(code)
        del code
        assert held() is None, "a code object is alive"
        assert all(dl.entries(each) == [] for each in compiled)
        done += 1
    return done


def soak_hanging_backends(seconds: float) -> int:
    """While one thread's backend hangs, the others run in eager. All wait at most once for each that hangs."""
    until, done, patience = time.monotonic() + seconds, 0, one_at_a_time.PATIENCE
    one_at_a_time.PATIENCE = 0.2
    try:
        while time.monotonic() < until or not done:
            done += _one_that_hangs(calls=20)
    finally:
        one_at_a_time.PATIENCE = patience
    soak_company.check_at_rest()
    return done


def _one_that_hangs(calls: int) -> int:
    compiling, go_on = threading.Event(), threading.Event()

    def hangs(gm: torch.fx.GraphModule, inputs: list[Any]) -> Function:
        compiling.set()
        assert go_on.wait(100)
        return gm.forward

    def call(number: int) -> int:
        scope: dict[str, Any] = {}
        for at in range(calls):
            exec(f"def program(x):\n    return x * {at} + {number}", scope)
            assert dl.compile(scope["program"], backend=soak.gm_forward)(torch.ones(1)).item() == at + number
        return calls

    hung = threading.Thread(target=dl.compile(soak.branches, backend=hangs), args=(torch.ones(1), 1), daemon=True)
    hung.start()
    assert compiling.wait(100)
    before = dl.counters.graphs
    done = soak_company.on_threads([lambda number=number: call(number) for number in range(4)], 60)  # type: ignore[misc]
    assert dl.counters.graphs == before, "two backends were at work"
    go_on.set()
    hung.join(100)
    assert not hung.is_alive() and not one_at_a_time.backend_hangs()
    call(9)
    assert dl.counters.graphs == before + calls, "nothing is compiled any more"
    return done


class Trainer:
    """Compiles its own method with its own backend, whose results refer to the trainer."""

    def __init__(self, has_break: bool) -> None:
        self.weight, self.has_break = torch.ones(4), has_break
        self.step = dl.compile(self._step, backend=self._backend)

    def _backend(self, gm: torch.fx.GraphModule, inputs: list[Any]) -> Function:
        return lambda *given: (self, gm.forward(*given))[1]

    def _step(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.weight
        if self.has_break:
            dl.graph_break()
        return y.sum()


def soak_cycles(seconds: float, threads: int = 4) -> int:
    """Objects that are held by their own entries, on threads, while the collector runs at any time."""
    until = time.monotonic() + seconds

    def work(number: int) -> int:
        done = 0
        while time.monotonic() < until or not done:
            kept = Trainer(bool(done % 2))
            for rows in (1, 2, 1):
                assert kept.step(torch.ones(rows, 4)).item() == 4 * rows
            held.append(weakref.ref(kept))
            del kept
            done += 1
        return done

    held: list[weakref.ref[Any]] = []
    thresholds = gc.get_threshold()
    gc.set_threshold(50, 2, 2)
    try:
        done = soak_company.on_threads([lambda number=number: work(number) for number in range(threads)], seconds)  # type: ignore[misc]
    finally:
        gc.set_threshold(*thresholds)
    soak.collected()
    assert not [ref for ref in held if ref() is not None], "objects are alive"
    soak_company.check_at_rest()
    return done


class Timeout(Exception):
    pass


def broken(x: torch.Tensor, n: int) -> torch.Tensor:
    try:
        with torch.no_grad():
            y = x.sin() + n
    except (ValueError, RuntimeError):
        y = x
    dl.graph_break()
    return y.cos() + sum(range(n))


def soak_asynchronous_exceptions(seconds: float) -> int:
    """Another thread sets an exception at any point of a translation. None starts a thread then: CPython gives an
    exception that is set while a thread starts to the new one, because both have its creator's id so far, and who
    started it waits forever. FX's interpreter starts one for its progress bar."""
    interval, torch.hub.tqdm.monitor_interval = torch.hub.tqdm.monitor_interval, 0
    try:
        return _soak_asynchronous_exceptions(time.monotonic() + seconds)
    finally:
        torch.hub.tqdm.monitor_interval = interval


def _soak_asynchronous_exceptions(until: float) -> int:
    draw, raised = random.Random(0), 0
    x, me = torch.ones(3), ctypes.c_ulong(threading.get_ident())
    wanted = broken(x, 3)
    taken = 0.05
    while time.monotonic() < until or raised < LEAST:
        kind = draw.choice((Timeout, TimeoutError, RuntimeError, ValueError, KeyboardInterrupt))
        delay, called = draw.random() * taken, threading.Event()

        def fire(kind: type[BaseException] = kind, delay: float = delay) -> None:
            time.sleep(delay)
            if not called.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(me, ctypes.py_object(kind))

        dl.reset()
        compiled = dl.compile(broken, backend=draw.choice((soak.gm_forward, "aot_eager")))
        timer = threading.Thread(target=fire, daemon=True)
        began = time.monotonic()
        try:
            timer.start()
            try:
                assert torch.equal(compiled(x, 3), wanted)
            finally:
                called.set()
            taken = min(time.monotonic() - began, 1.0)
            timer.join()
            soak.collected()  # what comes late comes here
        except BaseException as error:
            assert type(error) is kind, f"{error!r} came out for {kind}"
            raised += 1
        timer.join()
        assert gc.isenabled() and torch.is_grad_enabled() and not torch._C._len_torch_dispatch_stack()
        soak_company.check_at_rest()
        graphs = dl.counters.graphs
        dl.reset()
        assert torch.equal(dl.compile(broken, backend=soak.gm_forward)(x, 3), wanted)
        assert dl.counters.graphs == graphs + 2, "it is captured no more"
    return raised


def soak_all(seconds: float) -> Iterable[str]:
    yield f"changed values: {soak_changed_values(seconds)} calls"
    yield f"deallocated code: {soak_deallocated_code(seconds)} code objects"
    yield f"hanging backends: {soak_hanging_backends(seconds)} calls beside one"
    yield f"cycles: {soak_cycles(seconds)} objects"
    yield f"asynchronous exceptions: {soak_asynchronous_exceptions(seconds)} raised"
