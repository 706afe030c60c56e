"""The pieces of a graph, until the whole graph, which another process compiles, takes their place.

    the pieces run → the process has ended → calls of either are timed, in turn → the faster one stays

Which one runs changes between two calls only, and never while the backward of a call is outstanding: a checkpoint that
runs a forward again in the backward must save again what it saved before.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from dynamo_lite import _C, logs
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous

from .background import Job, jobs
from .torch_settings import TorchSettings
from .whole_graphs import WholeGraph

Compiled = Callable[..., Any]
Way = Literal["pieces", "whole"]

_UNTIMED = 2
"""Calls of the whole graph before the first that is timed: in them kernels are loaded and tuned."""
_ROUNDS = 4
_TIMED = 2
"""In each round either is called this often and timed, after one call that brings it back into the processor's caches.
The fastest call counts."""
_FASTER = 0.95
"""The whole graph stays if it takes this part of the time, or less: the clock of a call is no better than that."""


def replaced_later(pieces: Compiled, graph: WholeGraph) -> _C.Switch:
    """Calls ``pieces``, and later the whole graph if that is faster. Another process compiles it from now on."""
    switch = _C.Switch(pieces)
    job = jobs.add(graph)
    weakref.finalize(switch, jobs.cancel, job).atexit = False
    switch.current = _Replacement(switch, pieces, job)
    return switch


class _Replacement:
    """What a switch calls until it is decided what stays."""

    def __init__(self, switch: _C.Switch, pieces: Compiled, job: Job) -> None:
        self._switch = weakref.ref(switch)
        self._job = job
        self._lock = threading.Lock()
        self._compiled: dict[Way, Compiled] = {"pieces": pieces}
        self._way: Way = "pieces"
        self._trial: _Trial | None = None
        self.outstanding: weakref.WeakSet[_Backward] = weakref.WeakSet()

    def __call__(self, *inputs: object) -> Any:
        is_timed = self._advance()
        way = self._way
        if not is_timed:
            results = self._compiled[way](*inputs)
            self._watch(results, None)
            return results
        timing = _Timing(self._trial, way, inputs)
        with timing:
            results = self._compiled[way](*inputs)
        self._watch(results, timing)
        return results

    def _advance(self) -> bool:
        """Go on to what runs next, where it may change. Whether this call is timed."""
        if self.outstanding or not self._lock.acquire(blocking=False):
            return False
        try:
            if self._trial is None:
                jobs.look()
                if not self._job.is_over or _is_recording():
                    return False
                self._begin_trial()
            if self._trial is None or _is_recording():
                return False
            if not self._trial.left:
                self._settle(self._trial.fastest())
                return False
            self._way, is_timed = self._trial.left.pop()
            return is_timed
        finally:
            self._lock.release()

    def _begin_trial(self) -> None:
        """Load the whole graph; if that isn't possible the pieces stay."""
        graph = self._job.graph
        if not self._job.has_succeeded:
            return self._settle("pieces")
        if TorchSettings.now() != graph.settings:
            logs.perf.info("%sa graph stays in pieces: torch's settings have changed", logs.rank())
            return self._settle("pieces")
        try:
            whole = graph.load()
        except Exception as error:  # the program runs without it
            reraise_if_asynchronous(error)
            logs.perf.info("%sa graph stays in pieces: loading the whole failed", logs.rank(), exc_info=error)
            return self._settle("pieces")
        if whole is None:
            return self._settle("pieces")
        self._compiled["whole"] = whole
        self._trial = _Trial()

    def _settle(self, way: Way) -> None:
        """From the next call on nothing stands between."""
        self._way, self._trial = way, None
        self._compiled = {way: self._compiled[way]}
        switch = self._switch()
        if switch is not None:
            switch.current = self._compiled[way]

    def _watch(self, results: Sequence[object], timing: _Timing | None) -> None:
        """Note that a backward is outstanding, if results have one."""
        nodes = {each.grad_fn for each in results if isinstance(each, torch.Tensor) and each.grad_fn is not None}
        if nodes:
            backward = _Backward(self, timing)
            self.outstanding.add(backward)
            for node in nodes:
                node.register_prehook(backward)


class _Trial:
    """Which calls are timed, and how long they took."""

    def __init__(self) -> None:
        ways: tuple[Way, ...] = ("pieces", "whole")
        in_turn = [(way, is_timed) for way in ways for is_timed in (*[True] * _TIMED, False)]
        untimed: list[tuple[Way, bool]] = [("whole", False)] * _UNTIMED
        self.left = in_turn * _ROUNDS + untimed
        """What comes next is last."""
        self.forward: dict[Way, list[float]] = {"pieces": [], "whole": []}
        self.backward: dict[Way, list[float]] = {"pieces": [], "whole": []}

    def fastest(self) -> Way:
        pieces, whole = (min(self.forward[way]) + min(self.backward[way], default=0.0) for way in self.forward)
        found: Way = "whole" if whole <= _FASTER * pieces else "pieces"
        text = "%sa graph runs %s from now on: a call takes %.3f ms whole, %.3f ms in pieces"
        what = "whole" if found == "whole" else "in pieces"
        logs.perf.info(text, logs.rank(), what, whole * 1e3, pieces * 1e3)
        return found


class _Timing:
    """A block that is timed, and the backward of what is computed in it."""

    def __init__(self, trial: _Trial | None, way: Way, inputs: tuple[Any, ...]) -> None:
        self._trial = trial
        self._way: Way = way
        self._devices = {each.device for each in inputs if isinstance(each, torch.Tensor) and each.device.type != "cpu"}
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = self._now()

    def __exit__(self, *_: object) -> None:
        if self._trial is not None:
            self._trial.forward[self._way].append(self._now() - self._began)

    def begin_backward(self) -> None:
        self._began = self._now()

    def end_backward(self) -> None:
        if self._trial is not None:
            self._trial.backward[self._way].append(self._now() - self._began)

    def _now(self) -> float:
        for device in self._devices:
            torch.accelerator.synchronize(device)
        return time.perf_counter()


class _Backward:
    """The hook of the nodes that end a call's part of autograd's graph. They keep it alive."""

    def __init__(self, replacement: _Replacement, timing: _Timing | None) -> None:
        self._replacement = replacement
        self._timing = timing
        self._has_begun = False

    def __call__(self, gradients: tuple[torch.Tensor | None, ...]) -> None:
        if not self._has_begun:
            self._has_begun = True
            if self._timing is not None:
                self._timing.begin_backward()
            torch.autograd.Variable._execution_engine.queue_callback(self._end)

    def _end(self) -> None:
        if self._timing is not None:
            self._timing.end_backward()
        self._replacement.outstanding.discard(self)


def _is_recording() -> bool:
    """Whether the program records a CUDA graph, in which nothing may be loaded or waited for."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
