"""What a backend's graphs may have in them, which a translation has to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dynamo_lite.backends.registry import Backend


def _never() -> bool:
    return False


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
        """Read from the backend's attributes."""
        return cls(
            frees_at_once=getattr(backend, "frees_at_once", False),
            generates_kernels=getattr(backend, "generates_kernels", False),
            records_graphs=getattr(backend, "records_graphs", _never),
        )

    @property
    def takes_floats(self) -> bool:
        """Whether a graph may take floats now."""
        return self.float_inputs and not self.records_graphs()
