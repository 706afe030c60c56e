"""Whole graphs that another process compiles while their pieces run."""

from __future__ import annotations

import copyreg
import gc
import os
import pickle
import re
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint

import dynamo_lite as dl
from dynamo_lite import _C
from dynamo_lite.backends import background, whole_graphs
from dynamo_lite.backends.background import Job, Jobs
from dynamo_lite.backends.replacement import _Replacement
from dynamo_lite.backends.saved_graphs import NotPortable, restored, saved
from dynamo_lite.backends.torch_settings import TorchSettings
from dynamo_lite.backends.whole_graphs import WholeGraph

Run = Callable[..., Any]


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(self.norm(x))
        return x + self.down(torch.nn.functional.gelu(h) * torch.sigmoid(h)) * 0.5


class Pointwise(torch.nn.Module):
    """Operators that a compiler fuses into one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.sin(x * self.weight) * torch.sigmoid(x)
        return x + 0.1 * torch.tanh(h - torch.relu(x))


def blocks(count: int) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(5, 8), *(Block() for _ in range(count)))


def captured(program: Run, *inputs: Any) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Returns a program's graph and the backend's example inputs."""
    found: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Run:
        found.append((gm, example_inputs))
        return gm.forward

    dl.compile(program, backend=backend, fullgraph=True)(*inputs)
    (only,) = found
    return only


def test_a_saved_graph_is_restored():
    module = blocks(2)
    gm, examples = captured(module, torch.randn(4, 5))
    copy, fakes, _ = restored(saved(gm, examples))
    assert copy.code == gm.code
    for fake, example in zip(fakes, examples, strict=True):
        assert (fake.shape, fake.stride(), fake.dtype) == (example.shape, example.stride(), example.dtype)
        assert fake.requires_grad == example.requires_grad
        assert isinstance(fake, torch.nn.Parameter) == isinstance(example, torch.nn.Parameter)
    assert all(map(torch.equal, copy(*examples), gm(*examples)))


def test_arguments_of_all_kinds_are_restored():
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.pad(x, (1, 2), value=0.5)[:, 1:-1, None]
        y = torch.cat([y, y.to(torch.float64).float()], dim=1).sum(dim=(0, 2), keepdim=True)
        return torch.ops.aten.add.Tensor(y, torch.arange(3).max(), alpha=2) + torch.zeros(1, device="cpu")

    gm, examples = captured(program, torch.randn(2, 3))
    copy, _, _ = restored(saved(gm, examples))
    assert copy.code == gm.code and torch.equal(*copy(*examples), *gm(*examples))


def test_graph_that_cannot_be_pickled_is_not_compiled_in_the_background():
    base = torch.randn(8)
    gm, examples = captured(lambda x, y: x + y, base[:4], base[4:])
    with pytest.raises(NotPortable, match="inputs share memory"):
        saved(gm, examples)
    with pytest.raises(NotPortable, match="a history in autograd"):
        saved(*captured(lambda x: x + 1, torch.randn(3, requires_grad=True).sin()))

    @dl.allow_in_graph
    def mine(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with pytest.raises(NotPortable, match="a function of "):
        saved(*captured(lambda x: mine(x) + 1, torch.randn(3)))


def test_constants_are_pickled_by_name():
    """Keys of torch's caches are hashes of pickles, which name the module that a constant was imported to first."""
    constants = [torch.float16, torch.channels_last, torch.contiguous_format]
    with whole_graphs._constants_pickled_by_name():
        data = [pickle.dumps(each) for each in constants]
    assert [pickle.loads(each) for each in data] == constants
    assert all(re.search(rb"torch(?!.*(conftest|_utils|dynamo_lite))", each, re.DOTALL) for each in data)
    assert torch.memory_format not in copyreg.dispatch_table


class Whole:
    """Stands in for a `WholeGraph`. Its compiled form is a given function."""

    def __init__(self, run: Run, is_cached: bool = True) -> None:
        self.run = run
        self.settings = TorchSettings.now()
        self._is_cached = is_cached

    def load(self) -> Run | None:
        return self.run if self._is_cached else None


def switch_of(pieces: Run, whole: Run, **options: Any) -> tuple[_C.Switch, Job]:
    graph: Any = Whole(whole, **options)
    job, switch = Job(graph), _C.Switch(pieces)
    switch.current = _Replacement(switch, pieces, job)
    return switch, job


def ways(*, slow: str) -> tuple[list[str], Run, Run]:
    """Which of two functions ran, and both: "pieces" and "whole". One of them is slower."""
    ran: list[str] = []

    def way(name: str) -> Run:
        def run(x: torch.Tensor) -> tuple[torch.Tensor]:
            ran.append(name)
            time.sleep(0.02 if name == slow else 0)
            return (x * 2,)

        return run

    return ran, way("pieces"), way("whole")


@pytest.mark.parametrize("slow", ["pieces", "whole"])
def test_faster_form_is_kept(slow):
    ran, pieces, whole = ways(slow=slow)
    switch, job = switch_of(pieces, whole)
    x = torch.ones(3)
    for _ in range(3):
        assert torch.equal(*switch(x), x * 2)
    assert set(ran) == {"pieces"}
    job.end(True)
    for _ in range(40):
        assert torch.equal(*switch(x), x * 2)
    assert switch.current is (whole if slow == "pieces" else pieces)
    assert ran.count(slow) < 18  # two before the trial that are not timed, or three in pieces, and twelve in it


def test_pieces_stay_where_compiling_the_whole_failed():
    for has_succeeded, options in ((False, {}), (True, {"is_cached": False})):
        ran, pieces, whole = ways(slow="pieces")
        switch, job = switch_of(pieces, whole, **options)
        job.end(has_succeeded)
        switch(torch.ones(3))
        assert switch.current is pieces and ran == ["pieces"]


def test_pieces_stay_where_settings_have_changed():
    ran, pieces, whole = ways(slow="pieces")
    switch, job = switch_of(pieces, whole)
    job.end(True)
    with torch.no_grad():
        switch(torch.ones(3))
    assert switch.current is pieces and ran == ["pieces"]


def test_an_error_of_loading_is_logged(caplog):
    ran, pieces, whole = ways(slow="pieces")
    switch, job = switch_of(pieces, whole)

    def fails() -> Run:
        raise RuntimeError("no such file")

    vars(job.graph)["load"] = fails
    job.end(True)
    with caplog.at_level("INFO", logger="dynamo_lite.perf"):
        switch(torch.ones(3))
    assert switch.current is pieces and ran == ["pieces"]
    assert "loading the whole failed" in caplog.text and "no such file" in caplog.text


def test_nothing_changes_while_a_backward_is_outstanding():
    ran, pieces, whole = ways(slow="pieces")
    switch, job = switch_of(pieces, whole)
    x = torch.ones(3, requires_grad=True)
    (kept,) = switch(x)
    job.end(True)
    for _ in range(40):
        switch(torch.ones(3))
    assert set(ran) == {"pieces"}
    kept.sum().backward()
    for _ in range(40):
        (result,) = switch(x)
        result.sum().backward()
    assert switch.current is whole
    assert torch.equal(x.grad, torch.full((3,), 82.0))


def test_dropped_results_have_no_outstanding_backward():
    _, pieces, whole = ways(slow="pieces")
    switch, job = switch_of(pieces, whole)
    switch(torch.ones(3, requires_grad=True))
    job.end(True)
    for _ in range(40):
        switch(torch.ones(3, requires_grad=True))
    assert switch.current is whole


def test_a_checkpoint_recomputes_with_what_ran_first():
    def saving(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x.sin() * x.cos(),)

    def saving_less(x: torch.Tensor) -> tuple[torch.Tensor]:
        return ((2 * x).sin() / 2,)

    switch, job = switch_of(saving, saving_less)
    job.end(True)
    x = torch.randn(4, requires_grad=True)
    for _ in range(40):
        y = torch.utils.checkpoint.checkpoint(lambda x: switch(x.exp())[0], x, use_reentrant=False)
        y.sum().backward()  # raises where the recomputation saves another number of tensors
    assert switch.current in (saving, saving_less)


def test_an_error_of_a_call_is_the_callers():
    def fails(x: torch.Tensor) -> Any:
        raise ZeroDivisionError

    switch, job = switch_of(fails, fails)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            switch(torch.ones(3))
    job.end(True)
    for _ in range(40):
        with pytest.raises(ZeroDivisionError):
            switch(torch.ones(3))


def test_a_switch_is_deallocated_with_what_it_calls():
    _, pieces, whole = ways(slow="pieces")
    switch, _ = switch_of(pieces, whole)
    switch(torch.ones(3))
    alive = [weakref.ref(each) for each in (switch, pieces, whole, switch.current)]
    del switch, pieces, whole, _
    gc.collect()
    assert [each() for each in alive] == [None] * 4


def a_graph() -> WholeGraph:
    return WholeGraph(b"", {}, TorchSettings.now())


def test_failed_job_is_not_retried(caplog, monkeypatch):
    monkeypatch.setattr(background, "_MAIN", "raise SystemExit('there is no such operator')")
    jobs = Jobs()
    job = jobs.add(a_graph())
    with caplog.at_level("INFO", logger="dynamo_lite.perf"):
        assert jobs.wait()
    assert job.is_over and not job.has_succeeded
    assert "a graph stays in pieces: compiling it in the background failed: there is no such operator" in caplog.text


def test_one_job_is_under_way_at_a_time(monkeypatch):
    monkeypatch.setattr(background, "_MAIN", "import time; time.sleep(100)")
    jobs = Jobs()
    first, second = jobs.add(a_graph()), jobs.add(a_graph())
    assert not jobs.wait(timeout=0)
    jobs.cancel(second)
    jobs.cancel(first)
    assert first.is_over and jobs.wait(timeout=10)


def test_a_forked_process_waits_for_nothing(monkeypatch):
    monkeypatch.setattr(background, "_MAIN", "import time; time.sleep(100)")
    jobs = Jobs()
    job = jobs.add(a_graph())
    pid = os.fork()
    if pid == 0:
        jobs.forget_all()
        os._exit(0 if jobs.wait(timeout=0) and job.is_over else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert not job.is_over
    jobs.cancel(job)


def test_other_backends_compile_graphs_whole():
    module, graphs = blocks(30), []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Run:
        graphs.append(gm)
        return gm.forward

    dl.compile(module, backend=backend, regions="auto")(torch.randn(4, 5))
    assert len(graphs) == 1


@pytest.mark.full
@pytest.mark.parametrize("is_training", [False, True])
def test_inductor_compiles_the_whole_in_the_background(is_training, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    module = torch.nn.Sequential(*(Pointwise() for _ in range(20)))
    x = torch.randn(4, 8)

    def step(run: Run) -> list[torch.Tensor]:
        module.zero_grad()
        with torch.set_grad_enabled(is_training):
            result = run(x)
        if is_training:
            result.square().sum().backward()
            return [result, *(each.grad for each in module.parameters())]
        return [result]

    wanted = step(module)
    compiled = dl.compile(module, regions="auto")
    with caplog.at_level("INFO", logger="dynamo_lite.perf"):
        torch.testing.assert_close(step(compiled), wanted)
        assert dl.wait()
        for _ in range(40):
            torch.testing.assert_close(step(compiled), wanted)
    assert "a graph was compiled whole in the background" in caplog.text
    assert "from now on: a call takes" in caplog.text
