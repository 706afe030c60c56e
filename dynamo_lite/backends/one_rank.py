"""Of several ranks on a host that compile the same graph with Inductor, one does. The others wait for it, and then
compile from the caches on disk.

    the first rank locks the graph's file → it compiles → it marks the file → the others find the results

A rank that waits must not be waited for. So nothing of the program runs under the lock, and a graph isn't locked if
compiling it may need the other ranks: AOTAutograd's partitioner and some passes of Inductor's communicate, for graphs
that do. A rank that is killed releases the lock, and another one compiles.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist
import torch.fx

from dynamo_lite import logs
from dynamo_lite.records.unused_effects import is_collective
from dynamo_lite.runtime.inner_tensors import is_wrapper
from dynamo_lite.runtime.version import __version__

from .cache_keys import cacheable_functions_setting, is_cacheable
from .sizes import has_symbols_not_given, is_differentiated
from .torch_settings import TorchSettings

_PATIENCE = 300.0
"""Seconds that a rank waits at most: half of NCCL's time-out, should another rank wait for it after all."""
_SECONDS_BETWEEN_TRIES = 0.02
_WORTH_SAYING = 0.1
"""Seconds. A shorter wait isn't logged."""
_MAY_COMMUNICATE = (
    "aten_distributed_optimizations.enable_overlap_scheduling",
    "distributed_max_autotune_gemm",
    "reorder_for_compute_comm_overlap",
    "custom_partitioner_fn",
    "joint_custom_post_pass",
    "joint_custom_pre_pass",
    "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass",
    "pre_grad_custom_pass",
    "_post_fusion_custom_pass",
    "_pre_fusion_custom_pass",
)
"""Settings of Inductor's under which compiling any graph may wait for other ranks. Passes are the user's code."""


class LockFile:
    """A file that one process of the host at a time has locked. The kernel releases the lock when its holder ends. The
    file may carry a mark: what the lock is for has been done.

    Raises:
        OSError: the file can't be created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        """Of the open file, which has the lock. A process that inherits it has the lock, too."""

    def try_to_lock(self) -> bool:
        """Whether this process has the lock now.

        Raises:
            OSError: the file system has no locks.
        """
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def lock(self, seconds: float) -> bool:
        """Wait for the lock, so many seconds at most. Whether this process has it. Other threads run meanwhile.

        Raises:
            OSError: the file system has no locks.
        """
        until = time.monotonic() + seconds
        while not self.try_to_lock():
            if time.monotonic() > until:
                return False
            time.sleep(_SECONDS_BETWEEN_TRIES)
        return True

    @property
    def is_marked(self) -> bool:
        return os.fstat(self.descriptor).st_size > 0

    def mark(self) -> None:
        with contextlib.suppress(OSError):  # the disk is full
            os.write(self.descriptor, b"done\n")

    @property
    def is_removed(self) -> bool:
        """Whether a process that had the lock has removed the file."""
        return os.fstat(self.descriptor).st_nlink == 0

    def remove(self) -> None:
        """Remove the file. Processes that wait for the lock find out by `is_removed`; later ones create a new file."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    def unlock(self) -> None:
        """Release the lock and close the file. Processes that have inherited the file lose the lock as well."""
        with contextlib.suppress(OSError):  # which has no locks
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        """Close the file. A process that has inherited it keeps the lock."""
        os.close(self.descriptor)


class _Thread(threading.local):
    is_compiling = False
    """Whether it is in a block of `compiled_by_one_rank`. As a thread has one lock at most, none wait in a circle."""


_THREAD = _Thread()


@contextlib.contextmanager
def compiled_by_one_rank(
    gm: torch.fx.GraphModule, example_inputs: list[Any], patches: Mapping[str, Any], way: Literal["whole", "pieces"]
) -> Iterator[None]:
    """A block in which a graph is compiled with Inductor, under these settings: one rank at a time, until one has.

    Its backward is compiled with it, since AOTAutograd's cache has both or none."""
    if _THREAD.is_compiling or not has_several_ranks():
        yield
        return
    config = importlib.import_module("torch._inductor.config")
    with config.patch({**patches, **cacheable_functions_setting(gm)}):
        file = _file_of(gm, example_inputs, way) if _others_can_use(gm, example_inputs) else None
    if file is None:
        yield
        return
    backwards_too = importlib.import_module("torch._functorch.config").patch(
        force_non_lazy_backward_lowering=is_differentiated(example_inputs)
    )
    _THREAD.is_compiling = True
    try:
        with backwards_too, _once(file):
            yield
    finally:
        _THREAD.is_compiling = False


def has_several_ranks() -> bool:
    """Whether this process is one of several that run the same program: torchrun's, or of a default group."""
    if os.environ.get("LOCAL_WORLD_SIZE", "1") != "1":
        return True
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


@contextlib.contextmanager
def _once(path: Path) -> Iterator[None]:
    """A block that one process at a time runs, until one has. The others run it without a lock then."""
    file = _locked(path)
    if file is None:
        yield
        return
    try:
        yield
        file.mark()
    except BaseException:
        file.remove()  # the other ranks meet the same error, without waiting for one another
        raise
    finally:
        file.unlock()


def _locked(path: Path) -> LockFile | None:
    """The file with its lock; None if a process has run the block, or takes too long, or files can't be locked."""
    began = time.monotonic()
    try:
        file = LockFile(path)
    except OSError:
        return None
    try:
        has_lock = file.lock(_PATIENCE)
        is_first = has_lock and not file.is_marked and not file.is_removed
    except OSError:
        has_lock = is_first = False
    seconds = time.monotonic() - began
    if seconds > _WORTH_SAYING:
        what = "compiled" if has_lock and not is_first else "didn't compile"
        logs.perf.info("%swaited %.1f s for another process that %s the same graph", logs.rank(), seconds, what)
    if is_first:
        return file
    file.unlock()
    return None


def _others_can_use(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> bool:
    """Whether the caches will have what is compiled of a graph, and compiling it needs no other rank. The settings of
    Inductor are the graph's."""
    config = importlib.import_module("torch._inductor.config")
    if not config.fx_graph_cache or config.force_disable_caches or has_symbols_not_given(gm, example_inputs):
        return False
    settings = config.get_config_copy()
    if any(settings.get(name) for name in _MAY_COMMUNICATE) or _communicates(gm, example_inputs):
        return False
    return is_cacheable(gm)


def _communicates(gm: torch.fx.GraphModule, example_inputs: Iterable[object]) -> bool:
    """Whether operators of the graph may be collectives: those on wrapper subclasses are whatever the class does."""
    if any(is_wrapper(each) for each in example_inputs if isinstance(each, torch.Tensor)):
        return True
    return any(is_collective(node.target) for each in _graphs(gm) for node in each.graph.nodes)


def _graphs(gm: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    """The graph, and those of functions that its operators run."""
    return [each for each in gm.modules() if isinstance(each, torch.fx.GraphModule)]


def _file_of(gm: torch.fx.GraphModule, example_inputs: list[Any], way: str) -> Path:
    """The lock's file. Ranks have the same one if their entries in Inductor's caches are the same. These depend on the
    index of the device as well."""
    found = importlib.import_module("torch._inductor.runtime.cache_dir_utils")
    system = importlib.import_module("torch._inductor.codecache").CacheBase.get_system()
    versions = torch.__version__, __version__, sys.version, system
    inputs = [_described(each) for each in example_inputs]
    known = repr(([each.code for each in _graphs(gm)], inputs, TorchSettings.now(), versions, way))
    return Path(found.cache_dir(), "ranks", hashlib.sha256(known.encode()).hexdigest())


def _described(value: object) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {value}"
    of = type(value).__name__, value.dtype, value.device, value.layout, tuple(value.shape), value.requires_grad
    return str((*of, value.stride() if value.layout is torch.strided else ()))
