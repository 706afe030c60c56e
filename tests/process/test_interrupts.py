"""Errors that are not the program's, of a backend or a signal's handler: they come out as they are, through the blocks
that the program is in."""

from __future__ import annotations

import ctypes
import gc
import signal
import threading
import weakref

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite import _C
from dynamo_lite.translator.core import RootTranslator
from programs import tensor


class Late(RuntimeError):
    pass


class Block:
    def __init__(self, name, events, swallows=None):
        self.name, self.events, self.swallows = name, events, swallows

    def __enter__(self):
        self.events.append(f"in {self.name}")

    def __exit__(self, kind, error, traceback):
        self.events.append(f"out of {self.name}: {kind.__name__ if kind else None}")
        return self.swallows is not None and kind is not None and issubclass(kind, self.swallows)


def ring():
    signal.raise_signal(signal.SIGALRM)


@pytest.fixture
def alarm():
    def late(number, frame):
        raise Late("too late")

    before = signal.signal(signal.SIGALRM, late)
    yield
    signal.signal(signal.SIGALRM, before)


def failing_at(number, fail):
    """Returns a backend that fails to compile the graph of that number, from 1."""
    made = []

    def backend(gm, example_inputs):
        made.append(gm)
        if len(made) == number:
            fail()
        return gm.forward

    return backend


def running_into(number, fail):
    """Returns a backend whose graph of that number fails at run time."""
    made = []

    def backend(gm, example_inputs):
        made.append(gm)
        if len(made) != number:
            return gm.forward

        def call(*inputs):
            fail()
            return gm.forward(*inputs)

        return call

    return backend


def interrupted():
    raise KeyboardInterrupt


def broken():
    raise ValueError("a bug of the backend")


def in_blocks(x, events):
    try:
        with Block("with", events):
            x = x + 1
            dl.graph_break()
            x = x * 2
        dl.graph_break()
        x = x - 3
    finally:
        events.append("finally")
    return x


@pytest.mark.parametrize(
    "backend, error, seen",
    [
        (failing_at(2, broken), dl.exc.BackendCompilerFailed, "BackendCompilerFailed"),
        (failing_at(3, broken), dl.exc.BackendCompilerFailed, None),
        (failing_at(2, interrupted), KeyboardInterrupt, "KeyboardInterrupt"),
        (failing_at(2, ring), Late, "Late"),
        (running_into(2, interrupted), KeyboardInterrupt, "KeyboardInterrupt"),
        (running_into(2, ring), Late, "Late"),
    ],
)
def test_blocks_are_left(alarm, backend, error, seen):
    events = []
    with pytest.raises(error):
        dl.compile(in_blocks, backend=backend)(tensor(2), events)
    assert events == ["in with", f"out of with: {seen}", "finally"]


@pytest.mark.parametrize("number", [1, 2])
def test_tracebacks_of_errors_are_not_kept_alive(number):
    """Frames in tracebacks would keep local variables alive."""

    class Token(Exception):
        pass

    kept = []

    def fail():
        error = Token()
        kept.append(weakref.ref(error))
        raise KeyboardInterrupt from error

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            dl.compile(in_blocks, backend=running_into(number, fail))(tensor(2), [])
        assert kept[0]() is None
    finally:
        gc.enable()


def test_block_takes_the_error():
    def fn(x, events):
        with Block("with", events, dl.exc.BackendCompilerFailed):
            x = x + 1
            dl.graph_break()
            x = x * 2
        return x

    events = []
    found = dl.compile(fn, backend=failing_at(2, broken))(tensor(2), events)
    assert torch.equal(found, tensor(2) + 1)
    assert events == ["in with", "out of with: BackendCompilerFailed"]


def test_blocks_of_an_inlined_callee():
    def inner(x, events):
        with Block("inner", events):
            x = x + 1
            dl.graph_break()
            return x * 2

    def outer(x, events):
        with Block("outer", events):
            x = inner(x, events)
        return x + 1

    for backend in (failing_at(2, broken), running_into(2, interrupted)):
        events = []
        with pytest.raises((dl.exc.BackendCompilerFailed, KeyboardInterrupt)) as caught:
            dl.compile(outer, backend=backend)(tensor(2), events)
        name = caught.type.__name__
        assert events == ["in outer", "in inner", f"out of inner: {name}", f"out of outer: {name}"]


def test_block_of_a_callee_takes_the_error():
    def inner(x, events):
        with Block("inner", events, dl.exc.BackendCompilerFailed):
            x = x + 1
            dl.graph_break()
            return x * 2
        return x

    def outer(x, events):
        with Block("outer", events):
            x = inner(x, events)
        return x - 5

    events = []
    found = dl.compile(outer, backend=failing_at(2, broken))(tensor(2), events)
    assert torch.equal(found, tensor(2) + 1 - 5)
    assert events == ["in outer", "in inner", "out of inner: BackendCompilerFailed", "out of outer: None"]


def test_error_while_another_is_handled():
    def fn(x, events):
        try:
            raise LookupError("first")
        except LookupError:
            x = x + 1
            dl.graph_break()
            x = x * 2
        finally:
            events.append("finally")
        return x

    events = []
    with pytest.raises(dl.exc.BackendCompilerFailed):
        dl.compile(fn, backend=failing_at(2, broken))(tensor(2), events)
    assert events == ["finally"]


def test_signal_while_an_operator_is_traced(alarm):
    rings = [1]

    @torch.library.custom_op("dl_test_interrupts::slow", mutates_args=())
    def slow(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @slow.register_fake
    def _(x):
        if rings:
            rings.clear()
            ring()
        return torch.empty_like(x)

    def fn(x):
        with torch.no_grad():
            return slow(x) * 2

    compiled = dl.compile(fn, backend="eager")
    with pytest.raises(Late):
        compiled(tensor(2))
    assert torch.is_grad_enabled() and not _C.hook_installed()
    assert torch._C._len_torch_dispatch_stack() == 0
    dl.counters.reset()
    assert torch.equal(compiled(tensor(2)), fn(tensor(2)))
    assert dl.counters.graphs == 1


def test_signal_while_a_graph_runs_is_not_the_programs(alarm):
    """The program handles errors of its operators. An exception of a signal handler must not run them again and be
    lost.
    """
    calls = []

    def fn(x):
        try:
            return x / (x + 1)
        except ZeroDivisionError:
            return x

    def count():
        calls.append(1)
        if len(calls) == 1:
            ring()

    compiled = dl.compile(fn, backend=running_into(1, count))
    with pytest.raises(Late):
        compiled(tensor(2))
    assert torch.equal(compiled(tensor(2)), fn(tensor(2)))
    assert len(calls) == 2


@pytest.mark.parametrize("kind", ["partial", "method", "object"])
def test_handlers_of_other_kinds(kind):
    import functools

    class Handler:
        def __call__(self, number, frame):
            raise Late

        def method(self, number, frame):
            raise Late

    def handler(text, number, frame):
        raise Late(text)

    made = {"partial": functools.partial(handler, "text"), "method": Handler().method, "object": Handler()}[kind]
    before = signal.signal(signal.SIGALRM, made)
    try:
        with pytest.raises(Late):
            dl.compile(lambda x: x + 1, backend=failing_at(1, ring))(tensor(2))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_finalizers_see_tensors():
    """The finalizers belong to garbage that a collection would find while a frame is translated."""
    found = []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            found.append((torch.zeros(2) + 1).tolist())

    def fn(x):
        return [each * i for i, each in enumerate(x.relu().unbind())]

    compiled = dl.compile(fn, backend="eager")
    thresholds = gc.get_threshold()
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            Cycle()
        gc.set_threshold(gc.get_count()[0] + 1000)
        gc.enable()
        compiled(torch.ones(100, 2))
        assert gc.isenabled()
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    gc.collect()
    assert found == [[1, 1]] * 10


def test_the_collector_stays_off_where_the_program_turned_it_off():
    gc.disable()
    try:
        dl.compile(lambda x: x + 1, backend="eager")(tensor(2))
        assert not gc.isenabled()
    finally:
        gc.enable()


class Timeout(Exception):
    pass


class WithArguments(Exception):
    def __init__(self):
        super().__init__("late", 3)


def interrupt_this_thread(kind):
    """Sets an exception as another thread would: it is raised at the next instruction that checks for one."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(kind))


def some_calls():
    for _ in range(100):
        pass


ASYNCHRONOUS = [Timeout, WithArguments, TimeoutError, RuntimeError, ValueError, KeyError, MemoryError, UserWarning]


@pytest.mark.parametrize("kind", ASYNCHRONOUS)
def test_exception_of_another_thread_in_a_backend(kind):
    def fail():
        interrupt_this_thread(kind)
        some_calls()

    compiled = dl.compile(lambda x: x + 1, backend=failing_at(1, fail))
    with pytest.raises(kind) as caught:
        compiled(tensor(2))
    assert caught.type is kind
    assert torch.equal(compiled(tensor(2)), tensor(2) + 1) and dl.counters.frames == 1


@pytest.mark.parametrize("kind", ASYNCHRONOUS)
@pytest.mark.parametrize("step", [1, 7, 14, 24])
def test_exception_of_another_thread_while_a_frame_is_traced(kind, step, monkeypatch):
    """The program handles ValueError. An asynchronous ValueError in the translator, or in operators that it calls,
    isn't its own.
    """
    step_once, left = RootTranslator.step, [step]

    def stepping(self, *args):
        left[0] -= 1
        if left[0] == 0:
            interrupt_this_thread(kind)
        return step_once(self, *args)

    def program(x):
        with torch.no_grad():
            try:
                y = (x + 1).relu().sin()
            except (ValueError, RuntimeError, KeyError):
                y = x
        return y * 2 + x.cos() - 1

    monkeypatch.setattr(RootTranslator, "step", stepping)
    compiled = dl.compile(program, backend="eager")
    with pytest.raises(kind) as caught:
        compiled(tensor(2))
    assert caught.type is kind
    assert gc.isenabled() and torch.is_grad_enabled() and not _C.hook_installed()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert torch.equal(compiled(tensor(2)), program(tensor(2))) and dl.counters.graphs == 1


def test_exception_of_another_thread_that_a_backend_wraps():
    def fail():
        try:
            interrupt_this_thread(Timeout)
            some_calls()
        except Timeout as error:
            raise RuntimeError("the compiler failed") from error

    with pytest.raises(Timeout):
        dl.compile(lambda x: x + 1, backend=failing_at(1, fail))(tensor(2))


def test_what_is_raised_is_not_taken_for_an_exception_of_another_thread():
    def raised():
        raise Timeout

    def called():
        next(iter(()))

    for fail in (raised, called, lambda: int("x"), lambda: {}["x"], lambda: None.x):
        with pytest.raises(dl.exc.BackendCompilerFailed):
            dl.compile(lambda x: x + 1, backend=failing_at(1, fail))(tensor(2))


def test_collector_is_on_again_after_an_exception_that_leaves_it_off():
    def fail():
        _C.hold_collector()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dl.compile(lambda x: x + 1, backend=failing_at(1, fail))(tensor(2))
    assert gc.isenabled()


@pytest.mark.parametrize("on", [True, False])
def test_collector_is_in_a_backend_as_the_program_has_it(on):
    seen = []

    def backend(gm, inputs):
        seen.append(gc.isenabled())
        return gm.forward

    (gc.enable if on else gc.disable)()
    try:
        assert dl.compile(lambda x: x + 1, backend=backend)(tensor(2)).tolist() == (tensor(2) + 1).tolist()
        assert seen == [on] and gc.isenabled() is on
    finally:
        gc.enable()


@pytest.fixture
def nothing_frozen():
    """tests/conftest.py has frozen what exists before the tests."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_a_backend_has_the_collector_go_through_what_it_creates_alone(nothing_frozen):
    counts = []

    def backend(gm, inputs):
        counts.append(gc.get_freeze_count())
        return gm.forward

    dl.compile(lambda x: x + 1, backend=backend)(tensor(2))
    assert counts[0] > 10_000 and not gc.get_freeze_count()
    gc.freeze()
    frozen = gc.get_freeze_count()
    dl.compile(lambda x: x + 2, backend=backend)(tensor(2))
    assert abs(counts[1] - frozen) < 100 and abs(gc.get_freeze_count() - frozen) < 100


def test_no_object_stays_frozen_after_an_exception_between_two_statements(nothing_frozen, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(_C, "unfreeze_objects", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dl.compile(lambda x: x + 1, backend="eager")(tensor(2))
    assert not gc.get_freeze_count()
