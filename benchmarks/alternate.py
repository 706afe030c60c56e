"""Timing side by side: on a noisy machine only what ran in turns can be compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any


def seconds(fn: Callable[[], Any], number: int) -> float:
    """Wall-clock seconds of one of ``number`` calls."""
    began = time.perf_counter()
    for _ in range(number):
        fn()
    return (time.perf_counter() - began) / number


def alternate(fns: dict[str, Callable[[], Any]], *, number: int, rounds: int = 15) -> dict[str, list[float]]:
    """Seconds a call of each, run in turns: ``rounds`` times ``number`` calls each."""
    for fn in fns.values():
        seconds(fn, max(1, number // 10))
    found: dict[str, list[float]] = {name: [] for name in fns}
    for _ in range(rounds):
        for name, fn in fns.items():
            found[name].append(seconds(fn, number))
    return found


def added(times: list[float], bare: list[float]) -> float:
    """Median of what each turn took over the turn of the bare program beside it: a machine that gets slower and faster
    does so for both."""
    return statistics.median(one - other for one, other in zip(times, bare, strict=True))
