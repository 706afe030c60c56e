"""A value that a guard covers changes while the frame is compiled: the call runs in eager, the next compiles again."""

from __future__ import annotations

import signal
import threading

import pytest
import torch

import dynamo_lite as dl
from programs import Recorder

pytestmark = pytest.mark.changes_what_is_guarded


class Changing(Recorder):
    """A backend that changes something during its first compilations."""

    def __init__(self, change, times=1):
        super().__init__()
        self.change, self.times = change, times

    def __call__(self, gm, example_inputs):
        compiled = super().__call__(gm, example_inputs)
        if len(self.graphs) <= self.times:
            self.change()
        return compiled


class Settings:
    def __init__(self):
        self.mode, self.factors, self.calls = "add", [2], 0


def program(x, settings):
    x = x * settings.factors[0]
    return x + 1 if settings.mode == "add" else x - 1


def on_another_thread(change):
    def run():
        worker = threading.Thread(target=change)
        worker.start()
        worker.join()

    return run


def in_a_signal_handler(change):
    def run():
        before = signal.signal(signal.SIGALRM, lambda number, frame: change())
        try:
            signal.raise_signal(signal.SIGALRM)
        finally:
            signal.signal(signal.SIGALRM, before)

    return run


@pytest.mark.parametrize("where", [lambda change: change, on_another_thread, in_a_signal_handler])
@pytest.mark.parametrize("attribute, value", [("mode", "subtract"), ("factors", [3]), ("factors", [2.5, 1])])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_change_during_compilation(where, attribute, value, fullgraph, caplog):
    caplog.set_level("INFO", "dynamo_lite.recompiles")
    settings = Settings()
    backend = Changing(where(lambda: setattr(settings, attribute, value)))
    compiled = dl.compile(program, backend=backend, fullgraph=fullgraph)
    x = torch.ones(2)
    assert torch.equal(compiled(x, settings), program(x, settings))
    assert backend.runs == 0 and dl.counters.outdated == 1
    assert f"settings.{attribute}" in caplog.text and "changed while it was compiled" in caplog.text
    for _ in range(2):
        assert torch.equal(compiled(x, settings), program(x, settings))
    assert len(backend.graphs) == backend.runs == 2


def test_counter_that_the_backend_advances_becomes_a_symbol():
    settings = Settings()

    def counted(x):
        return x + settings.calls

    def advance():
        settings.calls += 1

    backend = Changing(advance, times=100)
    compiled = dl.compile(counted, backend=backend)
    for _ in range(5):
        assert torch.equal(compiled(torch.ones(2)), counted(torch.ones(2)))
    assert len(backend.graphs) == 2 and dl.counters.outdated == 1


def test_modes_that_the_backend_leaves_changed_are_restored():
    def leak():
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)

    weight = torch.ones(2, requires_grad=True)
    backend = Changing(leak, times=100)
    compiled = dl.compile(lambda x: (x @ weight).sum(), backend=backend, fullgraph=True)
    for _ in range(2):
        result = compiled(torch.ones(2))
        assert result.requires_grad and result.dtype is torch.float32
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")
    assert backend.runs == 2 and len(backend.graphs) == 1


def test_failing_backend_leaves_no_modes_changed():
    def fail():
        torch.set_grad_enabled(False)
        raise ValueError("no")

    with pytest.raises(dl.exc.BackendCompilerFailed):
        dl.compile(lambda x: x + 1, backend=Changing(fail))(torch.ones(2))
    assert torch.is_grad_enabled()


def flips(settings):
    def flip():
        settings.mode = "subtract"

    return flip


def test_frame_that_is_outdated_each_time_runs_in_eager_with_a_warning():
    settings = Settings()
    backend = Changing(flips(settings), times=100)
    compiled = dl.compile(program, backend=backend)

    def call():
        settings.mode = "add"
        result = compiled(torch.ones(2), settings)
        assert torch.equal(result, program(torch.ones(2), settings))

    with dl.config.patch(recompile_limit=3):
        for _ in range(3):
            call()
        with pytest.warns(RuntimeWarning, match="each time a value that it guards had changed"):
            call()
        call()
    assert len(backend.graphs) == dl.counters.outdated == 3


def test_frame_that_is_outdated_each_time_is_an_error_under_fullgraph():
    settings = Settings()
    compiled = dl.compile(program, backend=Changing(flips(settings), times=100), fullgraph=True)
    with dl.config.patch(recompile_limit=2):
        for _ in range(2):
            settings.mode = "add"
            compiled(torch.ones(2), settings)
        settings.mode = "add"
        with pytest.raises(dl.exc.RecompileLimitExceeded, match="fullgraph=True forbids eager"):
            compiled(torch.ones(2), settings)


def test_rest_after_a_graph_break_that_is_outdated():
    settings = Settings()

    def broken(x):
        y = x * settings.factors[0]
        dl.graph_break()
        return y + len(settings.mode)

    def change():
        settings.mode = "other"

    class Second(Changing):
        def __call__(self, gm, example_inputs):
            compiled = Recorder.__call__(self, gm, example_inputs)
            if len(self.graphs) == 2:
                change()
            return compiled

    backend = Second(change)
    compiled = dl.compile(broken, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 7.0))
    assert len(backend.graphs) == 3 and dl.counters.outdated == 1
