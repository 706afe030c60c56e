"""Compiles the kernels of several graphs together, instead of one graph's after the other's.

Inductor compiles Triton kernels in worker processes and C++ kernels in threads, and the module that it generates for a
graph waits for the kernels of that graph. In a block of `compiled_together` all are waited for at its end. The
processes take seconds to start (see `early_start`). Until then Inductor compiles the Triton kernels in this process; in
a block that is done in threads, while the next graph is lowered: LLVM and ptxas, which take most of the time, run
without the GIL.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from .early_start import short_switch_interval

_USED_BY_KERNELS = (
    "torch._inductor.runtime.triton_helpers",
    "torch._inductor.runtime.triton_heuristics",
    "triton.compiler.code_generator",
)
"""What kernels import. Modules are imported by the thread that compiles the graphs: two threads that import modules
which need each other would see half of them."""


class _Waiting:
    """Kernels of graphs that this thread compiles, and what waits for them. ``block`` ends after the wait."""

    def __init__(self, block: contextlib.ExitStack) -> None:
        self._block = block
        self._has_threads = False
        self._waits: list[Callable[[], object]] = []

    def put_off(self, wait: Callable[[], object]) -> None:
        self._waits.append(wait)

    def compile_in_thread(self, threads: ThreadPoolExecutor, compile_kernel: Callable[[], Any]) -> Future[Any]:
        """``compile_kernel`` returns a kernel, or a future of one."""
        if not self._has_threads:
            self._has_threads = True
            for name in _USED_BY_KERNELS:
                importlib.import_module(name)
            self._block.enter_context(short_switch_interval())
        device = torch.accelerator.current_device_index() if torch.accelerator.is_available() else None

        def compile_here() -> Any:
            if device is not None:
                torch.accelerator.set_device_index(device)
            kernel = compile_kernel()
            wait = getattr(kernel, "result", None)
            return kernel if wait is None else wait()

        return threads.submit(contextvars.copy_context().run, compile_here)

    def wait(self) -> None:
        for wait in self._waits:
            wait()


class _Thread(threading.local):
    waiting: _Waiting | None = None


class _Compiler:
    """Inductor's `AsyncCompile`, which asks whether the thread that compiles a graph waits later: in blocks only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._theirs: tuple[Any, Any] = (None, None)
        self.thread = _Thread()

    def enter(self, module: Any) -> None:
        with self._lock:
            if not self._blocks:
                self._theirs = module.AsyncCompile.wait, module.AsyncCompile.triton
                self._replace(module.AsyncCompile, module.LambdaFuture, *self._theirs)
            self._blocks += 1

    def leave(self, module: Any) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                module.AsyncCompile.wait, module.AsyncCompile.triton = self._theirs

    def _replace(self, compiler: Any, future: Any, wait: Any, triton: Any) -> None:
        def wait_later(self_: Any, scope: dict[str, Any]) -> None:
            waiting = self.thread.waiting
            if waiting is None:
                return wait(self_, scope)
            waiting.put_off(lambda: wait(self_, scope))

        def compile_in_thread(self_: Any, *args: Any, **kwargs: Any) -> Any:
            waiting = self.thread.waiting
            if waiting is None or self_.use_process_pool():
                return triton(self_, *args, **kwargs)
            kernel = waiting.compile_in_thread(self_.pool(), lambda: triton(self_, *args, **kwargs))
            return future(kernel.result, future=kernel)

        compiler.wait, compiler.triton = wait_later, compile_in_thread

    def forget_other_threads(self) -> None:
        """In a forked process: they are gone, perhaps with the lock, and in a block of theirs."""
        self._lock = threading.Lock()


_COMPILER = _Compiler()
os.register_at_fork(after_in_child=_COMPILER.forget_other_threads)


@contextlib.contextmanager
def compiled_together() -> Iterator[None]:
    """A block in which this thread compiles several graphs. None can be called before its end, where their kernels are
    waited for."""
    module = importlib.import_module("torch._inductor.async_compile")
    thread = _COMPILER.thread
    if thread.waiting is not None or module.get_compile_threads() <= 1:
        yield
        return
    with contextlib.ExitStack() as block:
        _COMPILER.enter(module)
        waiting = thread.waiting = _Waiting(block)
        try:
            yield
        finally:
            thread.waiting = None
            _COMPILER.leave(module)
        waiting.wait()
