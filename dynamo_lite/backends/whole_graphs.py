"""A graph whose pieces run already, for another process to compile whole.

The compiler's caches on disk carry the result: the other process fills them, and here the graph is compiled from what
they have, or not at all.
"""

from __future__ import annotations

import contextlib
import copyreg
import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.fx
from torch._guards import TracingContext, tracing

from dynamo_lite import logs
from dynamo_lite.runtime.version import __version__

from .inductor import Inductor, NotCached
from .one_rank import LockFile
from .saved_graphs import NotPortable, restored, saved
from .torch_settings import TorchSettings


@dataclass(frozen=True)
class WholeGraph:
    """A graph, without its inputs' values, and all that it is compiled under."""

    data: bytes
    patches: dict[str, Any]
    settings: TorchSettings

    @classmethod
    def of(cls, backend: Inductor, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> WholeGraph | None:
        """None if another process can't compile the graph. The log says why."""
        try:
            if torch.are_deterministic_algorithms_enabled():
                raise NotPortable("deterministic algorithms are asked for")
            return cls(saved(gm, example_inputs), dict(backend.patches), TorchSettings.now())
        except NotPortable as error:
            logs.perf.info("%sa graph stays in pieces: %s", logs.rank(), error)
            return None

    def is_cached(self) -> bool:
        """Whether a process has noted that the caches on disk have the result."""
        return self._note().exists()

    def lock_file(self) -> LockFile:
        """The file that the process which compiles the graph has locked.

        Raises:
            OSError: it can't be created.
        """
        return LockFile(self._note().with_suffix(".lock"))

    def compile(self) -> None:
        """Compile it, so that the caches have it, and note that."""
        self._compiled(is_cached=False)
        note = self._note()
        note.parent.mkdir(parents=True, exist_ok=True)
        note.touch()

    def load(self) -> Callable[..., Any] | None:
        """What the caches have; None if they don't have it any more, or of another torch."""
        try:
            return self._compiled(is_cached=True)
        except NotCached:
            self._note().unlink(missing_ok=True)
            logs.perf.info("%sa graph stays in pieces: the compiler's cache doesn't have the whole", logs.rank())
            return None

    def _compiled(self, *, is_cached: bool) -> Callable[..., Any]:
        with self._restored() as (gm, fakes):
            return Inductor(MappingProxyType(self.patches), is_cached)(gm, fakes)

    def _note(self) -> Path:
        """A marker: the file exists if the caches on disk have the graph."""
        versions = torch.__version__, __version__, sys.version
        known = repr((sorted(self.patches.items()), self.settings, versions)).encode()
        digest = hashlib.sha256(self.data + known).hexdigest()
        return Path(importlib.import_module("torch._inductor.runtime.cache_dir_utils").cache_dir(), "whole", digest)

    @contextlib.contextmanager
    def _restored(self) -> Iterator[tuple[torch.fx.GraphModule, list[torch.Tensor]]]:
        """The graph and fakes of its inputs, in a block in which backwards are compiled at once: the cache has a result
        when both parts of it are compiled."""
        gm, fakes, mode = restored(self.data)
        config = importlib.import_module("torch._functorch.config")
        with (
            config.patch(force_non_lazy_backward_lowering=True),
            tracing(TracingContext(mode)),
            _constants_pickled_by_name(),
        ):
            yield gm, fakes


class _Torch:
    """Is pickled as the module torch."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return importlib.import_module, ("torch",)


def _by_name(constant: torch.dtype | torch.memory_format) -> tuple[Callable[..., object], tuple[_Torch, str]]:
    return getattr, (_Torch(), str(constant).removeprefix("torch."))


@contextlib.contextmanager
def _constants_pickled_by_name() -> Iterator[None]:
    """A block in which keys of caches are the same in all processes. They are hashes of what is pickled, and pickle
    looks for a constant of torch's in all modules: it names the first that was imported, which may be the program's."""
    table = copyreg.dispatch_table
    before = {kind: table.get(kind) for kind in (torch.dtype, torch.memory_format)}
    table.update(dict.fromkeys(before, _by_name))
    try:
        yield
    finally:
        for kind, reducer in before.items():
            if reducer is None:
                table.pop(kind, None)
            else:
                table[kind] = reducer
