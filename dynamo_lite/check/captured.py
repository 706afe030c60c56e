"""A callable whose calls are captured, and the comparison of what was captured with limits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from traceback import FrameSummary
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dynamo_lite import config
from dynamo_lite.api import observe
from dynamo_lite.backends.registry import Backend
from dynamo_lite.compiler.observers import check_captures, check_runs_at_call
from dynamo_lite.controls.takeover import compiled_by_torch
from dynamo_lite.exc import BackendCompilerFailed, ConstraintViolation, Unsupported
from dynamo_lite.insight.break_reasons import DisabledCall
from dynamo_lite.insight.counters import counted
from dynamo_lite.insight.observer import GraphBreak, Observer, Recompile
from dynamo_lite.insight.site import qualified_name

from . import findings
from .findings import Finding, Limits, Place, Result, breaks_found

CAPTURE_ERRORS = (Unsupported, BackendCompilerFailed, ConstraintViolation)


@dataclass
class Record:
    """What was captured of some calls, and why the last one failed."""

    name: str
    observer: Observer = field(default_factory=lambda: Observer(captures_data=True))
    graphs: int = 0
    """Of the call that has most, where calls can be told apart."""
    trains: bool = False
    """Whether the check is to compute gradients."""
    backwards: int = 0
    """How often they were computed."""
    failure: Finding | None = None
    """Why the last call ended early."""
    is_one_callable: bool = False
    """Whether nothing but one callable was to be captured."""
    to_capture: str = "call torch operators on tensors in a separate function or module"
    """A hint where nothing was captured."""

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Count the graphs of a call: those that were captured, without those of frames that are translated again. What
        the compiler raises is recorded, and raised again."""
        graphs, recompiles = len(self.observer.graphs), len(self.observer.recompiles)
        try:
            check_captures(self.name)
            yield
        except CAPTURE_ERRORS as error:
            self.failure = failure_of(error)
            raise
        finally:
            again = len(self.observer.recompiles) - recompiles
            new = len(self.observer.graphs) - graphs
            self.graphs = max(self.graphs, new - again, min(new, 1))

    def _nothing_captured(self) -> Finding:
        why = next(iter(self.observer.not_compiled_here), None)
        details = [why.what()] if why is not None else self.observer.given_up[:1] if self.is_one_callable else []
        return Finding(
            findings.NOTHING_CAPTURED,
            ": ".join([f"no graph was captured in {self.name}", *details]),
            self.to_capture if why is None else why.hint(),
        )

    def result(self, limits: Limits, allows: Callable[[Finding], bool] = lambda each: False) -> Result:
        """What was captured, compared with the limits. ``allows``: whether a graph break is accepted."""
        found = Result(self.name, self.graphs, [*map(_described, self.observer.recompiles)])
        broken = breaks_found(self.observer.breaks)
        more_is_allowed = limits.max_graphs is not None and limits.max_graphs > 1
        for each in broken:
            (found.allowed if more_is_allowed or allows(each) else found.findings).append(each)
        if self.failure is not None:
            found.findings.append(self.failure)
        elif not self.observer.graphs:
            found.findings.append(self._nothing_captured())
        most = 1 if limits.max_graphs is None else limits.max_graphs
        if self.graphs > most and not found.findings and (limits.max_graphs is not None or not broken):
            found.findings.append(_too_many_graphs(self, most))
            if more_is_allowed:
                found.findings += found.allowed
                found.allowed = []
        if len(self.observer.recompiles) > limits.max_recompiles:
            found.findings.append(_too_many_recompiles(self, limits))
        if self.trains and not self.backwards and self.failure is None:
            found.findings.append(_NOT_TRAINED)
        return found


def failure_of(error: Unsupported | BackendCompilerFailed | ConstraintViolation) -> Finding:
    """What the compiler raised, as a finding."""
    if not isinstance(error, Unsupported):
        what, _, hint = str(error).partition("\n\nHint: ")
        return Finding(findings.BACKEND_FAILED, what.partition("\n")[0], hint)
    if error.user_stack:
        return Finding.of_break(GraphBreak(error.reason, error.user_stack))
    return Finding(findings.NOTHING_CAPTURED, error.reason.what(), error.reason.hint())


def _too_many_graphs(record: Record, most: int) -> Finding:
    return Finding(
        findings.TOO_MANY_GRAPHS,
        f"one call of {record.name} has {counted(record.graphs, 'graph')}, where {most} {_is_or_are(most)} allowed",
        "fix the breaks between them; where there is none, compile what calls these parts as one function",
    )


def _too_many_recompiles(record: Record, limits: Limits) -> Finding:
    made, allowed = record.observer.recompiles, limits.max_recompiles
    first = made[allowed]
    place = Place.of(FrameSummary(first.filename, first.lineno, first.function, lookup_line=False))
    listed = "".join(f"\n    {_described(each)}" for each in made[:8])
    message = f"{counted(len(made), 'recompile')}, where {allowed} {_is_or_are(allowed)} allowed:{listed}"
    return Finding(findings.TOO_MANY_RECOMPILES, message, first.hint, place)


def _described(recompile: Recompile) -> str:
    return f"{recompile.function}: {recompile.change}"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"


_NOT_TRAINED = Finding(
    findings.NOT_TRAINED,
    "no result of what was captured needs gradients",
    "give the module parameters, or inputs, that require gradients, and don't call it under torch.no_grad()",
)


class Captured:
    """``fn`` compiled for itself alone, however often it is called, under tracers too. Calls return what ``fn`` does.

    Args:
        fn: a function or module, compiled (by torch.compile, too) or not.
        backend, dynamic: as for `dl.compile`.
        train: put a module into training mode for the call, and compute gradients of the result's tensors.
    """

    def __init__(self, fn: Callable[..., Any], *, backend: str | Backend, dynamic: bool | None, train: bool) -> None:
        self.record = Record(qualified_name(fn), trains=train, is_one_callable=True)
        self._fn = compiled_by_torch(fn) or fn
        self._call, self._owner = observe(fn, self.record.observer, backend=backend, dynamic=dynamic)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        limit = max(config.recompile_limit, len(self.record.observer.recompiles) + 2)
        with config.patch(recompile_limit=limit, internal_errors="raise"), self.record.call():
            check_runs_at_call(self._fn, must=True)
            if getattr(self._fn, "_torchdynamo_disable", False):
                raise Unsupported(DisabledCall(qualified_name(self._fn)))
            if not self.record.trains:
                return self._call(*args, **kwargs)
            with self._training(), torch.enable_grad():
                result = self._call(*args, **kwargs)
                self._differentiate(result)
        return result

    @contextlib.contextmanager
    def _training(self) -> Iterator[None]:
        modules = self._fn.modules() if isinstance(self._fn, torch.nn.Module) else ()
        modes = [(each, each.training) for each in modules]
        for module, _ in modes:
            module.training = True
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode

    def _differentiate(self, result: object) -> None:
        tensors = [each for each in tree_leaves(result) if isinstance(each, torch.Tensor) and each.requires_grad]
        if tensors:
            torch.autograd.backward(tensors, [torch.ones_like(each) for each in tensors])
            self.record.backwards += 1

    def close(self) -> None:
        """Drop what was compiled."""
        self._owner.reset()
