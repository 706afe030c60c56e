"""Timing side by side: on a noisy machine only what ran in turns can be compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


class Stopwatch:
    """Seconds spent in the functions that it wraps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            began = time.perf_counter()
            result = fn(*args)
            self.seconds += time.perf_counter() - began
            return result

        return call


def seconds(fn: Callable[[], Any], number: int, less: Stopwatch | None = None) -> float:
    """Wall-clock seconds of one of ``number`` calls, less what a stopwatch counted meanwhile."""
    less = less or Stopwatch()
    began, before = time.perf_counter(), less.seconds
    for _ in range(number):
        fn()
    return (time.perf_counter() - began - (less.seconds - before)) / number


def alternate(
    fns: dict[str, Callable[[], Any]],
    *,
    number: int,
    rounds: int = 15,
    less: Stopwatch | None = None,
    between: Callable[[], Any] | None = None,
) -> dict[str, list[float]]:
    """Seconds a call of each, run in turns: ``rounds`` times ``number`` calls each. ``between``: called before each
    turn, outside of its time."""
    for fn in fns.values():
        seconds(fn, max(5, number // 10))
    found: dict[str, list[float]] = {name: [] for name in fns}
    for _ in range(rounds):
        for name, fn in fns.items():
            if between is not None:
                between()
            found[name].append(seconds(fn, number, less))
    return found


def added(times: list[float], bare: list[float]) -> float:
    """Median of what each turn took over the turn of the bare program beside it: a machine that gets slower and faster
    does so for both."""
    return statistics.median(one - other for one, other in zip(times, bare, strict=True))
