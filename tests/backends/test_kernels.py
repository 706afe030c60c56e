"""Inductor's kernels: those of a graph's pieces are compiled together, and what they wait for is begun early."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import LambdaFuture
from torch._inductor.graph import GraphLowering

import dynamo_lite as dl
from dynamo_lite.backends import kernels
from dynamo_lite.backends.kernels import compiled_together
from processes import run_program


class Block(torch.nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.up = torch.nn.LayerNorm(width), torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(self.norm(x))
        return x + self.down(torch.nn.functional.gelu(h) * torch.sigmoid(h))


def model() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(5, 8), *(Block() for _ in range(4)), torch.nn.Linear(8, 3), torch.nn.Tanh()
    )


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records Inductor's steps: "lower" for each graph, "wait" for the kernels of each graph."""
    found: list[str] = []

    def noting(cls: Any, method: str, step: str) -> None:
        run = getattr(cls, method)

        def noted(*args: Any, **kwargs: Any) -> Any:
            found.append(step)
            return run(*args, **kwargs)

        monkeypatch.setattr(cls, method, noted)

    noting(GraphLowering, "compile_to_module", "lower")
    noting(AsyncCompile, "_wait_futures", "wait")
    return found


def test_pieces_are_lowered_before_kernels_are_waited_for(steps: list[str]) -> None:
    eager, x = model(), torch.randn(2, 5)
    compiled = dl.compile(eager, regions="only", options={"fx_graph_cache": False})
    with torch.no_grad(), torch._functorch.config.patch(enable_autograd_cache=False):
        assert torch.allclose(compiled(x), eager(x), atol=1e-6)
    count = steps.count("lower")
    assert count > 1
    assert steps == ["lower"] * count + ["wait"] * count


def test_backwards_of_pieces_are_compiled_with_their_forwards(steps: list[str]) -> None:
    eager, x = model(), torch.randn(2, 5)
    compiled = dl.compile(eager, regions="only", options={"fx_graph_cache": False})
    with torch._functorch.config.patch(enable_autograd_cache=False):
        result = compiled(x)
        assert steps == sorted(steps), "all are lowered, then all are waited for"
        count = len(steps)
        found = torch.autograd.grad(result.sum(), [*eager.parameters()])
    assert len(steps) == count
    wanted = torch.autograd.grad(eager(x).sum(), [*eager.parameters()])
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(found, wanted, strict=True))


def test_other_graphs_wait_for_their_own(steps: list[str]) -> None:
    compiled, x = dl.compile(lambda x: torch.sin(x) * 3, options={"fx_graph_cache": False}), torch.randn(3)
    with torch._functorch.config.patch(enable_autograd_cache=False):
        assert torch.allclose(compiled(x), torch.sin(x) * 3)
    assert steps == ["lower", "wait"]


def test_failure_of_a_kernel_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: AsyncCompile, scope: dict[str, Any]) -> None:
        raise RuntimeError("no compiler")

    eager, x = model(), torch.randn(2, 5)
    compiled = dl.compile(eager, regions="only", options={"fx_graph_cache": False})
    with torch.no_grad(), torch._functorch.config.patch(enable_autograd_cache=False):
        with monkeypatch.context() as patched:
            patched.setattr(AsyncCompile, "_wait_futures", fail)
            with pytest.raises(dl.exc.BackendCompilerFailed, match="no compiler"):
                compiled(x)
        assert torch.allclose(compiled(x), eager(x), atol=1e-6)


@pytest.fixture
def are_ready(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether Inductor's workers are ready. A kernel is the name of the thread that compiles it; of a setting there, if
    that is its source."""

    def compile_one(self: AsyncCompile, name: str, source: str, device_str: str = "cuda") -> Any:
        if source == "wrong":
            raise RuntimeError(f"{name} can't be compiled")
        if source == "max_autotune":
            return torch._inductor.config.max_autotune
        thread = threading.current_thread().name.split("-")[0]
        return LambdaFuture(lambda: f"{thread}, handed on") if source == "handed on" else thread

    ready = [False]
    monkeypatch.setattr(kernels, "_USED_BY_KERNELS", ())
    monkeypatch.setattr(AsyncCompile, "triton", compile_one)
    monkeypatch.setattr(AsyncCompile, "use_process_pool", classmethod(lambda cls: ready[0]))
    interval = sys.getswitchinterval()
    yield ready
    assert sys.getswitchinterval() == interval


def compile_kernel(name: str, source: str = "source") -> dict[str, Any]:
    """The names of a generated module with one kernel, for which it waits."""
    compiler = AsyncCompile()
    scope = {name: compiler.triton(name, source)}
    compiler.wait(scope)
    return scope


def test_kernels_are_compiled_in_threads_until_the_workers_are_ready(are_ready: list[bool]) -> None:
    with compiled_together():
        scopes = [compile_kernel("one"), compile_kernel("two", "handed on")]
        assert all(isinstance(kernel, LambdaFuture) for scope in scopes for kernel in scope.values())
        are_ready[:] = [True]
        scopes.append(compile_kernel("three"))
        assert scopes[2] == {"three": "MainThread"}
    assert scopes == [
        {"one": "ThreadPoolExecutor"},
        {"two": "ThreadPoolExecutor, handed on"},
        {"three": "MainThread"},
    ]


def test_kernels_are_compiled_while_the_next_graph_is_lowered(
    are_ready: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_compiled = threading.Event()
    monkeypatch.setattr(AsyncCompile, "triton", lambda *_: is_compiled.set())
    with compiled_together():
        compile_kernel("one")
        assert is_compiled.wait(60)


def test_threads_compile_kernels_with_the_settings_of_the_block(are_ready: list[bool]) -> None:
    with torch._inductor.config.patch(max_autotune=True), compiled_together():
        scope = compile_kernel("one", "max_autotune")
    assert scope == {"one": True}


def test_failure_of_a_thread_that_compiles_a_kernel_is_raised(are_ready: list[bool]) -> None:
    with pytest.raises(RuntimeError, match="one can't be compiled"), compiled_together():
        compile_kernel("one", "wrong")


def test_failure_of_a_graph_does_not_wait_for_kernels_of_others(are_ready: list[bool]) -> None:
    with pytest.raises(ZeroDivisionError), compiled_together():
        scope = compile_kernel("one")
        raise ZeroDivisionError
    assert isinstance(scope["one"], LambdaFuture)


def test_backend_prepares_before_a_frame_is_translated() -> None:
    class Backend:
        def __init__(self) -> None:
            self.steps: list[str] = []

        def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
            self.steps.append("compile")
            return gm.forward

        def prepare(self) -> None:
            self.steps.append("prepare")

    backend = Backend()
    compiled = dl.compile(lambda x: x + 1, backend=backend)
    assert backend.steps == []
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert backend.steps == ["prepare", "compile"]


BEFORE_A_CALL = """
import sys, threading
import torch
import dynamo_lite as dl

compiled = dl.compile(lambda x: x + 1)
dl.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
assert "torch._inductor.compile_fx" not in sys.modules
assert threading.active_count() == 1
"""


def test_nothing_is_loaded_before_a_call() -> None:
    done = run_program(BEFORE_A_CALL, "torch")
    assert done.returncode == 0, done.stderr


SEARCHED_EARLY = """
import sys, threading
import torch
import dynamo_lite as dl
from torch._inductor import cpu_vec_isa

pick, searches, interval = cpu_vec_isa.pick_vec_isa, [], sys.getswitchinterval()

def pick_slowly():
    searches.append(threading.current_thread().name)
    threading.Event().wait(1)
    return pick()

cpu_vec_isa.pick_vec_isa = pick_slowly
compiled = dl.compile(lambda x: torch.sin(x) + 1)
compiled(torch.ones(2))
assert searches[0] == "dynamo_lite compiling", searches
assert not any(each.name == "dynamo_lite compiling" for each in threading.enumerate())
assert sys.getswitchinterval() == interval
"""


def test_compiler_waits_for_what_was_begun_early() -> None:
    done = run_program(SEARCHED_EARLY, "torch")
    assert done.returncode == 0, done.stderr
