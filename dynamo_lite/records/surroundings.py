"""What an attempt is told before it begins, and what doesn't change while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class BackendTraits:
    """What a backend's graphs may have in them. If it fails on a graph, the frame is translated again with fewer of
    them."""

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
    records_graphs: Callable[[], bool] | None = None
    """Whether the backend records launches of kernels now: a recorded graph takes no floats. None: it never does."""

    @property
    def takes_floats(self) -> bool:
        """Whether a graph may take floats now."""
        return self.float_inputs and not (self.records_graphs is not None and self.records_graphs())


@dataclass(frozen=True)
class Surroundings:
    """Where the frame runs, and for whom it is traced."""

    begins_handled: bool
    """Whether the frame resumes inside a block that may swallow an error, and in which the graph's are raised."""
    callers_handle: bool
    """Whether a caller of the frame is handling an exception."""
    captures_data: bool
    """Whether numbers read from tensors, and sizes that depend on data, are symbols whatever the setting is."""
    is_exporting: bool
    """Whether ``dl.export`` traces the frame."""
