"""Threads that miss concurrently: one translates, the others wait for its entry or for their turn."""

from __future__ import annotations

import signal
import sys
import threading
import warnings

import pytest
import torch
from torch.fx.experimental import proxy_tensor
from torch.fx.experimental.proxy_tensor import make_fx

import dynamo_lite as dl
from dynamo_lite import _C
from dynamo_lite.compiler import one_at_a_time
from programs import Recorder

pytestmark = pytest.mark.on_cpu

THREADS = 8


class Gathering(Recorder):
    """A backend that compiles its first graph when as many calls as there are threads have begun."""

    def __init__(self):
        super().__init__()
        self.begun = threading.Barrier(THREADS + 1)

    def __call__(self, gm, example_inputs):
        compiled = super().__call__(gm, example_inputs)
        if len(self.graphs) == 1:
            self.begun.wait(30)
        return compiled


def at_once(begun, call):
    """Returns what calls on as many threads return or raise. As each begins, another thread passes the barrier."""
    found = [None] * THREADS

    def run(number):
        threading.Thread(target=begun.wait, daemon=True).start()
        try:
            found[number] = call(number)
        except Exception as error:
            found[number] = error

    workers = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers), "a thread hangs"
    return found


def program(x, n=3):
    return x * n + 1


def broken(x):
    y = x * 3
    dl.graph_break()
    return y + 1


def test_one_thread_compiles_and_another_captures_the_next_shape():
    recorder = Gathering()
    compiled = dl.compile(program, backend=recorder)
    found = at_once(recorder.begun, lambda number: compiled(torch.ones(2)))
    assert all(torch.equal(each, torch.full((2,), 4.0)) for each in found), found
    assert len(recorder.graphs) == len(compiled.owner.entries(program.__code__)) == 1
    assert recorder.runs == THREADS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(torch.ones(3, dtype=torch.float64))
    assert len(recorder.graphs) == 2 and recorder.runs == THREADS + 1


def test_one_thread_compiles_for_all_owners_with_equal_settings():
    recorder = Gathering()
    compiled = [dl.compile(program, backend=recorder) for _ in range(THREADS)]
    found = at_once(recorder.begun, lambda number: compiled[number](torch.ones(2)))
    assert all(torch.equal(each, torch.full((2,), 4.0)) for each in found), found
    assert len(recorder.graphs) == 1 and recorder.runs == THREADS and dl.counters.shared == THREADS - 1
    assert all(len(each.owner.entries(program.__code__)) == 1 for each in compiled)


def test_threads_under_a_process_wide_enable():
    recorder = Gathering()
    with dl.enable(recorder):
        found = at_once(recorder.begun, lambda number: broken(torch.ones(2)))
    assert all(torch.equal(each, torch.full((2,), 4.0)) for each in found), found
    assert len(recorder.graphs) == 2 and recorder.runs == 2 * THREADS


def test_shapes_without_an_entry_are_compiled_one_after_another():
    recorder = Gathering()
    compiled = dl.compile(program, backend=recorder)
    kinds = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    found = at_once(recorder.begun, lambda number: compiled(torch.ones(2, dtype=kinds[number % 4])))
    for number, each in enumerate(found):
        assert torch.equal(each, program(torch.ones(2, dtype=kinds[number % 4])))
    assert len(recorder.graphs) == len(compiled.owner.entries(program.__code__)) == 4


def test_waiting_thread_compiles_after_the_first_fails():
    class Failing(Gathering):
        def __call__(self, gm, example_inputs):
            compiled = super().__call__(gm, example_inputs)
            if len(self.graphs) == 1:
                raise RuntimeError("no")
            return compiled

    recorder = Failing()
    compiled = dl.compile(program, backend=recorder, fullgraph=True)
    found = at_once(recorder.begun, lambda number: compiled(torch.ones(2)))
    failed = [each for each in found if isinstance(each, Exception)]
    assert len(failed) == 1 and isinstance(failed[0], dl.exc.BackendCompilerFailed)
    assert len(recorder.graphs) == 2 and recorder.runs == THREADS - 1


def test_waiting_threads_raise_the_fullgraph_error():
    begun = threading.Barrier(THREADS)
    compiled = dl.compile(broken, backend=Recorder(), fullgraph=True)
    found = at_once(begun, lambda number: compiled(torch.ones(2)))
    assert all(isinstance(each, dl.exc.Unsupported) for each in found), found


class Held(Recorder):
    """A backend that compiles graph number ``held`` only when it is told to continue."""

    def __init__(self, held=1):
        super().__init__()
        self.held = held
        self.compiling, self.go_on = threading.Event(), threading.Event()

    def __call__(self, gm, example_inputs):
        compiled = super().__call__(gm, example_inputs)
        if len(self.graphs) == self.held:
            self.compiling.set()
            self.while_held()
            assert self.go_on.wait(30)
        return compiled

    def while_held(self):
        pass


@pytest.fixture
def interrupts():
    """A process that a shell runs in the background ignores interrupts, so they are enabled here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("graph", [1, 2])
def test_a_thread_that_waits_is_interrupted_where_it_is_in_the_program(graph):
    class Interrupting(Held):
        def while_held(self):
            main = threading.main_thread().ident
            while sys._current_frames()[main].f_code is not one_at_a_time.Turn.hold.__code__:
                self.go_on.wait(0.001)  # there is no event for a thread that begins to wait
            signal.pthread_kill(main, signal.SIGINT)

    seen = []

    def program(x):
        try:
            y = x * 3
            dl.graph_break()
            return y + 1
        except KeyboardInterrupt:
            seen.append("handled")
            raise

    recorder = Interrupting(graph)
    compiled = dl.compile(program, backend=recorder)
    other = threading.Thread(target=compiled, args=(torch.ones(2),), daemon=True)
    other.start()
    assert recorder.compiling.wait(30)
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled(torch.ones(2))
    finally:
        recorder.go_on.set()
        other.join(30)
    assert seen == (["handled"] if graph == 2 else [])
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert len(recorder.graphs) == 2


class Consulting(Recorder):
    """A backend that waits for a thread which calls the function under compilation."""

    def __call__(self, gm, example_inputs):
        compiled = super().__call__(gm, example_inputs)
        if len(self.graphs) == 1:
            self.found = []
            other = threading.Thread(target=self.consult, daemon=True)
            other.start()
            other.join(60)
            assert not other.is_alive()
        return compiled

    def consult(self):
        try:
            self.found.append(self.compiled(torch.ones(2)))
        except dl.exc.Unsupported as error:
            self.found.append(error)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_translation_that_waits_for_a_thread_that_waits_for_it(monkeypatch, fullgraph):
    """With ``fullgraph`` no call runs in eager because it has waited."""
    monkeypatch.setattr(one_at_a_time, "PATIENCE", 0.05)
    recorder = Consulting()
    recorder.compiled = dl.compile(program, backend=recorder, fullgraph=fullgraph)
    assert torch.equal(recorder.compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert [each.tolist() for each in recorder.found] == [[4.0, 4.0]]
    assert len(recorder.graphs) == recorder.runs == (2 if fullgraph else 1)
    assert len(recorder.compiled.owner.entries(program.__code__)) == 1


def test_threads_that_may_not_compile_do_not_wait():
    recorder = Held()
    compiled = dl.compile(program, backend=recorder)
    other = threading.Thread(target=compiled, args=(torch.ones(2),), daemon=True)
    other.start()
    assert recorder.compiling.wait(30)
    assert torch.equal(dl.run(compiled)(torch.ones(2)), torch.full((2,), 4.0))
    assert recorder.runs == 0 and other.is_alive()
    recorder.go_on.set()
    other.join(30)
    assert recorder.runs == 1


def test_compiles_of_two_functions_take_turns():
    """torch's tracers patch modules and set globals, which two concurrent tracers would restore in the wrong order."""
    begun = threading.Event()
    overlapped = []

    def other(x):
        return x.cos() + 1

    class Tracing(Recorder):
        def __call__(self, gm, example_inputs):
            if len(self.graphs) == 0:
                make_fx(lambda x: self.with_the_other(x))(torch.ones(2))
            return super().__call__(gm, example_inputs)

        def with_the_other(self, x):
            thread.start()
            assert begun.wait(30)
            thread.join(0.2)
            overlapped.append([*second.graphs])
            return x + 1

    class Second(Recorder):
        def __call__(self, gm, example_inputs):
            return super().__call__(make_fx(gm)(*example_inputs), example_inputs)

    def call():
        begun.set()
        found.append(compiled(torch.ones(2)))

    found, second = [], Second()
    compiled = dl.compile(other, backend=second)
    thread = threading.Thread(target=call, daemon=True)
    assert torch.equal(dl.compile(program, backend=Tracing())(torch.ones(2)), torch.full((2,), 4.0))
    thread.join(30)
    assert overlapped == [[]] and len(second.graphs) == 1 and torch.equal(found[0], other(torch.ones(2)))
    assert proxy_tensor._CURRENT_MAKE_FX_TRACER is None


def numbered(number):
    scope = {}
    exec(f"def program(x):\n    return x * {number}", scope)
    return scope["program"]


def test_hanging_backend_is_waited_for_once(monkeypatch):
    """Afterwards calls of other threads run in eager without translation, until the backend returns."""
    monkeypatch.setattr(one_at_a_time, "PATIENCE", 0.5)
    recorder, other = Held(), Recorder()
    first = dl.compile(program, backend=recorder)
    thread = threading.Thread(target=first, args=(torch.ones(2),), daemon=True)
    thread.start()
    assert recorder.compiling.wait(60)
    compiled = [dl.compile(numbered(number), backend=other) for number in range(20)]
    assert torch.equal(compiled[0](torch.ones(2)), torch.zeros(2))
    waited = []
    hold = _C.FrameView.hold

    def noted(view, lock, seconds):
        waited.append(seconds)
        return hold(view, lock, seconds)

    monkeypatch.setattr(_C.FrameView, "hold", noted)
    for number, call in enumerate(compiled):
        for _ in range(2):
            assert torch.equal(call(torch.ones(2)), torch.full((2,), float(number)))
    same = dl.compile(program, backend=recorder)
    for _ in range(3):
        assert torch.equal(same(torch.ones(2)), torch.full((2,), 4.0))
    assert sum(waited) <= 0.5 and dl.counters.graphs == 1 and not other.graphs
    assert thread.is_alive()
    recorder.go_on.set()
    thread.join(60)
    for number, call in enumerate(compiled):
        assert torch.equal(call(torch.ones(2)), torch.full((2,), float(number)))
    assert len(other.graphs) == other.runs == 20
    assert torch.equal(same(torch.ones(2)), torch.full((2,), 4.0)) and len(recorder.graphs) == 1


def test_abandoned_turn_is_waited_for_at_a_later_call(monkeypatch):
    """Each call waits anew."""
    monkeypatch.setattr(one_at_a_time, "PATIENCE", 0.2)
    for _ in range(2):
        recorder = Held()
        thread = threading.Thread(target=dl.compile(program, backend=recorder), args=(torch.ones(2),), daemon=True)
        thread.start()
        assert recorder.compiling.wait(60)
        fresh = numbered(2)
        dl.compile(fresh, backend="eager")(torch.ones(2))
        assert one_at_a_time.backend_hangs()
        recorder.go_on.set()
        thread.join(60)
        assert not one_at_a_time.backend_hangs()
        monkeypatch.setattr(one_at_a_time, "PATIENCE", 60.0)
        dl.reset()
        compiled = dl.compile(program, backend=Recorder())
        compiled(torch.ones(2))
        assert len(compiled.owner.entries(program.__code__)) == 1
        monkeypatch.setattr(one_at_a_time, "PATIENCE", 0.2)
        dl.reset()
