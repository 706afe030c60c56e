"""What a backend's graphs may have in them, which a translation has to know."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace

from dynamo_lite.backends.registry import Backend


def _never() -> bool:
    return False


_ON_AOTAUTOGRAD = weakref.WeakValueDictionary[int, Backend]()
"""Backends of users that call AOTAutograd, by id."""


@dataclass(frozen=True)
class BackendTraits:
    """Of one owner's backend. If it fails on a graph, the frame is translated again with fewer of them."""

    empty_graphs: bool = False
    """Frames with nothing in them for a graph are translated too."""
    float_inputs: bool = True
    """Graphs may take floats, as tensors on the CPU that are created before the call."""
    gradients: bool = True
    """Graphs may differentiate inside: the backend hasn't failed on one that does."""
    wrappers: bool = True
    """Graphs may have wrapper subclasses: the backend hasn't failed on one that has."""
    masked_writes: bool = True
    """Graphs may write values that require gradients through masks: the backend traces no backward, in which the sizes
    of their gradients depend on data, or hasn't failed on one."""
    arguments_only: bool = False
    """Only tensors among the arguments may have symbolic sizes."""
    frees_at_once: bool = False
    """A backward frees all that the graph saved for backwards."""
    generates_kernels: bool = False
    """It compiles users' Triton kernels itself, so that it takes none which Python runs."""
    records_graphs: Callable[[], bool] = _never
    """Whether the backend records launches of kernels now: a recorded graph takes no floats."""

    @classmethod
    def of(cls, backend: Backend) -> BackendTraits:
        """Read from the backend's attributes, or known from its last graph."""
        frees_at_once = getattr(backend, "frees_at_once", False) or id(backend) in _ON_AOTAUTOGRAD
        return cls(
            masked_writes=not frees_at_once,
            frees_at_once=frees_at_once,
            generates_kernels=getattr(backend, "generates_kernels", False),
            records_graphs=getattr(backend, "records_graphs", _never),
        )

    def on_aotautograd(self, backend: Backend) -> BackendTraits:
        """Those of a user's backend that turned out to call AOTAutograd."""
        with contextlib.suppress(TypeError):  # not all objects can be referred to weakly
            _ON_AOTAUTOGRAD[id(backend)] = backend
        return replace(self, frees_at_once=True, masked_writes=False)

    @property
    def takes_floats(self) -> bool:
        """Whether a graph may take floats now."""
        return self.float_inputs and not self.records_graphs()
