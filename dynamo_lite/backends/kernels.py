"""When Inductor's kernels are compiled: with those of the graph's other pieces, by workers that are started early.

Inductor compiles Triton kernels in worker processes and C++ kernels in threads, and the module that it generates for a
graph waits for the graph's own. The processes take seconds to start; until then Inductor compiles one Triton kernel
after the other, in this process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

_BEGUN = set[int]()
"""The id of the process that has begun."""


def begin() -> None:
    """Start, while the program is traced, what compiling waits for: on a GPU the workers, which import all that they
    need; on a CPU the search for its vector instructions, which runs a compiler for each kind; the hash of Triton.

    The thread calls functions of modules that are imported here: of an import in another thread, the program's own
    could see half a module.
    """
    importlib.import_module("torch._inductor.compile_fx")
    is_gpu = torch.cuda.is_initialized() or torch.xpu.is_initialized()
    if is_gpu:
        with contextlib.suppress(OSError):  # which is raised again where a kernel is compiled
            importlib.import_module("torch._inductor.async_compile").maybe_warm_pool()  # wakes them, too
    if os.getpid() in _BEGUN:
        return
    _BEGUN.clear()
    _BEGUN.add(os.getpid())
    triton = importlib.import_module("torch._inductor.runtime.triton_compat")
    work = [triton.triton_key] if triton.HAS_TRITON else []  # it has no lock, which a forked process would find held
    if not is_gpu:
        importlib.import_module("torch.utils._filelock")
        work.append(importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa)
    threading.Thread(target=_run, args=(work,), name="dynamo_lite compiling", daemon=True).start()


def _run(functions: list[Callable[[], object]]) -> None:
    """Fill the caches of functions. Where one fails, its caller meets the error."""
    for each in functions:
        with contextlib.suppress(OSError, RuntimeError):
            each()


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
