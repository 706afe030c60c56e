"""Compiles the kernels of several graphs together, instead of one graph's after the other's.

Inductor compiles Triton kernels in worker processes and C++ kernels in threads, and the module that it generates for a
graph waits for the kernels of that graph. In a block of `compiled_together` all are waited for at its end. The
processes take seconds to start (see `early_start`); until then Inductor compiles the Triton kernels in this process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any


class _Kernel:
    """A Triton kernel that is compiled when the workers are ready, or when it is waited for."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self._start = start
        self._started: Any = None

    def start(self) -> None:
        """Hand it to the workers; while they aren't ready, compile it here."""
        if self._started is None:
            self._started = self._start()

    def result(self) -> Any:
        self.start()
        wait = getattr(self._started, "result", None)
        return self._started if wait is None else wait()


class _Waiting:
    """Kernels of graphs that this thread compiles, and what waits for them."""

    def __init__(self) -> None:
        self._kernels: list[_Kernel] = []
        self._waits: list[Callable[[], object]] = []

    def add(self, kernel: _Kernel) -> None:
        self._kernels.append(kernel)

    def put_off(self, wait: Callable[[], object]) -> None:
        self._waits.append(wait)

    def start(self) -> None:
        for kernel in self._kernels:
            kernel.start()
        self._kernels.clear()

    def wait(self) -> None:
        self.start()
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
            if self_.use_process_pool():
                waiting.start()

        def compile_later(self_: Any, *args: Any, **kwargs: Any) -> Any:
            waiting = self.thread.waiting
            if waiting is None or self_.use_process_pool():
                return triton(self_, *args, **kwargs)
            kernel = _Kernel(lambda: triton(self_, *args, **kwargs))
            waiting.add(kernel)
            return future(kernel.result)

        compiler.wait, compiler.triton = wait_later, compile_later

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
    _COMPILER.enter(module)
    waiting = thread.waiting = _Waiting()
    try:
        yield
    finally:
        thread.waiting = None
        _COMPILER.leave(module)
    waiting.wait()
