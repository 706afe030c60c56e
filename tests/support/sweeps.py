"""Calls of one function with a series of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import devices
import dynamo_lite as dl
from equality import Pairing
from programs import Recorder, decorator_for


def sweep(
    fn: Callable[..., Any],
    calls: Sequence[tuple[Any, ...]],
    *,
    graphs: int | None = 2,
    dynamic: bool | None = None,
    backend: Any = None,
    fullgraph: bool = False,
) -> Recorder:
    """Compile ``fn``, make the calls, compare each with eager, and count the graphs. None: any number."""
    recorder = Recorder()
    compiled = dl.compile(fn, backend=backend or recorder, dynamic=dynamic, fullgraph=fullgraph)
    before = dl.counters.graphs
    for args in calls:
        with devices.skips_what_is_only_for_cpu():
            expected = fn(*args)
        found = compiled(*args)
        Pairing().compare(expected, found, f"result of {[getattr(arg, 'shape', arg) for arg in args]}")
    assert graphs is None or dl.counters.graphs - before == graphs
    return recorder


def both(fn: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, graphs: int | None = 2, fewer: int = 1) -> None:
    """Sweeps with sizes static at first, and with symbolic sizes from the start, which needs fewer graphs."""
    sweep(fn, calls, graphs=graphs)
    sweep(fn, calls, graphs=None if graphs is None else max(graphs - fewer, 1), dynamic=True)


swept, swept_both = decorator_for(sweep), decorator_for(both)
