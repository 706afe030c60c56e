"""What a compile with Inductor waits for, begun while the program is traced.

Triton's hash of its own files, which is in the keys of Inductor's caches and takes as long as reading them. On a GPU:
the worker processes, which import what they need; Triton's driver, a C file that is compiled once a machine. On a CPU:
torch's hash of its files, and the search for its vector instructions, which runs a C++ compiler for each kind.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from dynamo_lite.runtime.interrupts import importing

_SWITCH_INTERVAL = 2e-4
"""Seconds. The thread waits for the GIL some thousand times: with Python's five milliseconds, for seconds in all."""


class _EarlyStart:
    """The thread of this process. A forked process has none of its parent's."""

    def __init__(self) -> None:
        self._process: int | None = None
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Import the compiler, and start what it will wait for. The second call of a process only wakes the workers.

        Modules are imported here alone: while another thread imports one, the program could see half of it.
        """
        is_first = self._process != os.getpid()
        self._process = os.getpid()
        with importing():
            self._import(is_first)

    def _import(self, is_first: bool) -> None:
        is_gpu = torch.cuda.is_initialized() or torch.xpu.is_initialized()
        if is_first and is_gpu:
            self._start(_work_of_triton(is_gpu))
        if is_gpu:
            with contextlib.suppress(OSError):  # which is raised again where a kernel is compiled
                importlib.import_module("torch._inductor.async_compile").maybe_warm_pool()  # wakes them, too
        importlib.import_module("torch._inductor.compile_fx")
        if is_first and not is_gpu:
            importlib.import_module("torch.utils._filelock")
            pick = importlib.import_module("torch._inductor.cpu_vec_isa").pick_vec_isa
            torch_key = importlib.import_module("torch._inductor.codecache").torch_key
            self._start([pick, torch_key, *_work_of_triton(is_gpu)])

    def _start(self, work: list[Callable[[], object]]) -> None:
        self._thread = threading.Thread(target=_run, args=(work,), name="dynamo_lite compiling", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the thread: its results have no lock, so the compiler would compute them once more."""
        thread = self._thread
        if thread is not None and self._process == os.getpid():
            thread.join()


_EARLY_START = _EarlyStart()
begin = _EARLY_START.begin
wait = _EARLY_START.wait


def _work_of_triton(is_gpu: bool) -> list[Callable[[], object]]:
    if not importlib.import_module("torch.utils._triton").has_triton_package():
        return []
    hashing, compiler, driver = map(
        importlib.import_module, ("triton.runtime.cache", "triton.compiler.compiler", "triton.runtime.driver")
    )
    key = hashing.triton_key if hasattr(hashing, "triton_key") else compiler.triton_key
    return [lambda: driver.driver.active.utils, key] if is_gpu else [key]


def _run(functions: Iterable[Callable[[], Any]]) -> None:
    """Fill the caches of functions. Where one fails, its caller meets the error."""
    with short_switch_interval():
        for each in functions:
            with contextlib.suppress(OSError, RuntimeError, ImportError, subprocess.SubprocessError):
                each()


@contextlib.contextmanager
def short_switch_interval() -> Iterator[None]:
    """A block in which other threads compile: they get the GIL soon, each of the many times that they ask for it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SWITCH_INTERVAL))
    own = sys.getswitchinterval()
    try:
        yield
    finally:
        if sys.getswitchinterval() == own:  # the program hasn't set another
            sys.setswitchinterval(before)
