"""Programs in several processes that communicate, over gloo or, with a GPU each, over NCCL: started once for all of
them, by forks of one that has imported torch."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from processes import run_program

PATIENCE = timedelta(seconds=60)
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
_START = """
import os, sys
sys.path[:0] = {path!r}
import ranks
if not {on_gpus}:  # on a GPU the file makes tensors, and CUDA can't be initialized before a fork
    ranks.imported({filename!r})
for rank in range(1, {world}):
    if not os.fork():
        ranks.run(rank, {world}, {filename!r}, {names!r}, {folder!r}, {on_gpus})
        os._exit(0)
ranks.run(0, {world}, {filename!r}, {names!r}, {folder!r}, {on_gpus})
for _ in range(1, {world}):
    os.wait()
"""


def failures(
    filename: str, functions: Iterable[Callable[[int], None]], folder: Path, world: int = 2, on_gpus: bool = False
) -> str:
    """Run these functions of a file, which take their rank, in ``world`` processes. Returns their exceptions."""
    path, names = [os.path.dirname(__file__), *sys.path], [each.__name__ for each in functions]
    start = _START.format(path=path, world=world, filename=filename, names=names, folder=str(folder), on_gpus=on_gpus)
    done = run_program(start)
    raised = [f"{each.name}: {each.read_text()}" for each in sorted(folder.glob("*.txt"))]
    finished = {each.stem for each in folder.glob("*.done")}
    missing = {str(rank) for rank in range(world)} - finished
    if missing or done.returncode:
        raised.append(f"ranks {sorted(missing)} didn't finish: {done.stderr[-3000:]}")
    return "\n".join(raised)


def initialize(rank: int, world: int, store: Path) -> None:
    """Creates the default group, of GPUs if the default device is one."""
    backend = "nccl" if device_type() == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world, timeout=PATIENCE)


def device_type() -> str:
    """Returns the device of the programs' tensors."""
    return torch.get_default_device().type


@cache
def imported(filename: str) -> types.ModuleType:
    """The file as a module: imported before the ranks are forked where it can be, as that takes seconds."""
    spec = importlib.util.spec_from_file_location("programs_of_ranks", filename)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(rank: int, world: int, filename: str, names: list[str], folder: str, on_gpus: bool) -> None:
    """Runs each function on this rank. Exceptions are written to a file."""
    import dynamo_lite as dl

    os.environ["FOLDER_OF_RANKS"] = folder
    if on_gpus:
        torch.cuda.set_device(rank)
        torch.set_default_device(torch.device("cuda", rank))
    torch.set_num_threads(1)  # as many processes as there are ranks compute at once
    initialize(rank, world, Path(folder, "store"))
    module = imported(filename)
    for name in names:
        dl.reset()
        dl.counters.reset()
        try:
            getattr(module, name)(rank)
        except Exception:
            Path(folder, f"{name}.{rank}.txt").write_text(traceback.format_exc())
            os._exit(1)  # the other ranks may wait for this one in a collective, and NCCL's groups end together
        dist.barrier()
    Path(folder, f"{rank}.done").touch()
    if dist.is_initialized():
        dist.destroy_process_group()
