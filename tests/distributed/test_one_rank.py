"""Of several ranks that compile the same graph with Inductor, one does; the others take its results."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
import torch._inductor.compile_fx  # before the ranks are forked
import torch.distributed as dist
from torch._dynamo.utils import counters
from torch._inductor import cpu_vec_isa

import dynamo_lite as dl
import ranks
from dynamo_lite.backends import background, one_rank
from dynamo_lite.backends.background import Job, Jobs
from dynamo_lite.backends.inductor import inductor
from dynamo_lite.backends.one_rank import LockFile
from dynamo_lite.backends.torch_settings import TorchSettings
from dynamo_lite.backends.whole_graphs import WholeGraph

# Graphs of matrix products need no C++ compiler, nor the search for vector instructions with one.


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y @ x


def counted() -> dict[str, int]:
    """Returns how often all ranks have found a graph in the caches on disk, and how often not."""
    names = {"fxgraph_cache_hit": "hits", "fxgraph_cache_miss": "misses"}
    own = {name: counters["inductor"][key] for key, name in names.items()}
    own["aot hits"] = counters["aot_autograd"]["autograd_cache_hit"]
    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, own)
    return {name: sum(each[name] for each in found) for name in own}


@contextlib.contextmanager
def empty_caches(name: str) -> Iterator[Path]:
    folder = Path(os.environ["FOLDER_OF_RANKS"], name)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    cpu_vec_isa.pick_vec_isa = list
    counters.clear()
    torch.manual_seed(0)
    yield folder


def one_compiles_for_inference(rank: int) -> None:
    with empty_caches("inference") as folder:
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        torch.testing.assert_close(dl.compile(product)(x, y), product(x, y))
        assert counted() == {"hits": 2, "misses": 1, "aot hits": 2}
        assert len(list((folder / "ranks").iterdir())) == 1


def one_compiles_forward_and_backward(rank: int) -> None:
    with empty_caches("training"):
        x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
        dl.compile(product)(x, y).backward(y)
        (wanted,) = torch.autograd.grad(product(x, y), x, y)
        torch.testing.assert_close(x.grad, wanted)
        assert counted() == {"hits": 4, "misses": 2, "aot hits": 2}


def one_compiles_the_pieces(rank: int) -> None:
    with empty_caches("pieces"):
        x, ys = torch.randn(4, 4), torch.randn(6, 4, 4)

        def layers(x: torch.Tensor) -> torch.Tensor:
            for y in ys.unbind():
                for _ in range(8):
                    x = x @ y
            return x

        torch.testing.assert_close(dl.compile(layers, regions="only")(x), layers(x))
        found = counted()
        assert found["misses"] > 0 and found["hits"] == 2 * found["misses"]


def ranks_with_different_graphs_do_not_wait(rank: int) -> None:
    with empty_caches("different"):
        _both_in_the_block(lambda x, y: torch.addmm(x, x, y, beta=rank + 1))


def ranks_whose_graph_communicates_do_not_wait(rank: int) -> None:
    with empty_caches("communicates"):

        def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = x @ y
            dist.all_reduce(z)
            return z

        _both_in_the_block(program)


def _both_in_the_block(program: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    """Checks that a rank compiles the program while the others do: they meet meanwhile, or time out."""

    def backend(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        with inductor.compiled_by_one_rank(gm, example_inputs, "whole"):
            dist.barrier()
        return gm.forward

    dl.compile(program, backend=backend, fullgraph=True)(torch.randn(4, 4), torch.randn(4, 4))


PROGRAMS = [
    one_compiles_for_inference,
    one_compiles_forward_and_backward,
    one_compiles_the_pieces,
    ranks_with_different_graphs_do_not_wait,
    ranks_whose_graph_communicates_do_not_wait,
]


def test_three_ranks(tmp_path):
    assert ranks.failures(__file__, PROGRAMS, tmp_path, world=3) == ""


# -- with a process that compiles beside this one ----------------------------------------------------------------------


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty caches, in a process that torchrun has started with another one."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cpu_vec_isa, "pick_vec_isa", list)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    counters.clear()
    return tmp_path


@contextlib.contextmanager
def a_process_that_compiles(program: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yields the id of a fork that calls the program and doesn't end compiling its first graph."""
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:

        def pause(*_: object, **__: object) -> NoReturn:
            os.write(writes, b".")
            while True:
                signal.pause()

        monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", pause)
        with contextlib.suppress(BaseException):
            program()
        os._exit(1)
    os.close(writes)
    assert os.read(reads, 1) == b"."
    os.close(reads)
    try:
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def compile_product() -> None:
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    torch.testing.assert_close(dl.compile(product)(x, y), product(x, y))


def test_a_killed_rank_is_not_waited_for(caches, monkeypatch, caplog):
    waits = []

    def sleep(seconds: float) -> None:
        waits.extend([seconds] * (seconds == one_rank._SECONDS_BETWEEN_TRIES))
        if len(waits) == 10:
            os.kill(pid, signal.SIGKILL)
        real_sleep(seconds)

    real_sleep = time.sleep
    with a_process_that_compiles(compile_product, monkeypatch) as pid, monkeypatch.context() as patch:
        patch.setattr(time, "sleep", sleep)
        with caplog.at_level("INFO", logger="dynamo_lite.perf"):
            compile_product()
    assert len(waits) >= 10
    assert "for another process that didn't compile the same graph" in caplog.text
    assert counters["inductor"]["fxgraph_cache_miss"] == 1
    (file,) = (caches / "ranks").iterdir()
    assert LockFile(file).is_marked


def test_a_rank_waits_for_a_while_only(caches, monkeypatch, caplog):
    monkeypatch.setattr(one_rank, "_PATIENCE", 0.2)
    with (
        a_process_that_compiles(compile_product, monkeypatch),
        caplog.at_level("INFO", logger="dynamo_lite.perf"),
    ):
        compile_product()
    assert "waited 0.2 s for another process that didn't compile the same graph" in caplog.text


def test_ranks_with_different_settings_do_not_wait(caches, monkeypatch):
    with a_process_that_compiles(compile_product, monkeypatch):
        x = torch.randn(4, 4)
        began = time.monotonic()
        dl.compile(product, options={"epilogue_fusion": False})(x, x)
        dl.compile(product)(torch.randn(5, 5), torch.randn(5, 5))
        dl.compile(product)(x.double(), x.double())
        assert time.monotonic() - began < one_rank._PATIENCE / 2


def test_a_graph_that_fails_is_not_waited_for_again(caches, monkeypatch):
    def fail(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("no such operator")

    with monkeypatch.context() as patch:
        patch.setattr("torch._inductor.compile_fx.compile_fx", fail)
        with pytest.raises(dl.exc.BackendCompilerFailed, match="no such operator"):
            compile_product()
    assert not list((caches / "ranks").iterdir())
    compile_product()
    assert len(list((caches / "ranks").iterdir())) == 1


def test_nothing_is_locked_without_caches(caches, monkeypatch):
    x = torch.randn(4, 4)
    dl.compile(product, options={"fx_graph_cache": False})(x, x)
    with torch.compiler.config.patch(force_disable_caches=True):
        dl.compile(product)(x.double(), x.double())
    dl.compile(product, options={"post_grad_custom_post_pass": lambda graph: None})(x, x)  # which may communicate
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    compile_product()
    assert not (caches / "ranks").exists()


def test_graphs_are_compiled_where_files_cannot_be_locked(caches, monkeypatch):
    (caches / "ranks").touch()  # no folder
    compile_product()
    (caches / "ranks").unlink()

    def refuse(*_: object) -> NoReturn:
        raise OSError("no locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    dl.reset()
    compile_product()


# -- in the background -------------------------------------------------------------------------------------------------


def a_graph() -> WholeGraph:
    return WholeGraph(b"", {}, TorchSettings.now())


def _until_started(jobs: Jobs, job: Job) -> None:
    until = time.monotonic() + 30
    while job._process is None and time.monotonic() < until:
        jobs.wait(0.1)


def test_one_program_compiles_in_the_background(caches, monkeypatch):
    monkeypatch.setattr(background, "_MAIN", "import time; time.sleep(100)")
    here, elsewhere = Jobs(), Jobs()
    first, second = here.add(a_graph()), elsewhere.add(a_graph())
    assert first._process is not None and second._process is None
    assert not elsewhere.wait(timeout=0.2)
    here.cancel(first)
    _until_started(elsewhere, second)
    assert second._process is not None, "the first has ended without"
    elsewhere.cancel(second)


def test_what_another_program_has_compiled_in_the_background_is_taken(caches, monkeypatch, caplog):
    monkeypatch.setattr(background, "_MAIN", "import time; time.sleep(100)")
    here, elsewhere = Jobs(), Jobs()
    first, second = here.add(a_graph()), elsewhere.add(a_graph())
    a_graph()._note().touch()
    here.cancel(first)
    with caplog.at_level(logging.INFO, logger="dynamo_lite.perf"):
        assert elsewhere.wait(timeout=30)
    assert second.has_succeeded and second._process is None
    assert "a graph was compiled whole in the background of another process" in caplog.text
