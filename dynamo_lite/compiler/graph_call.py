"""Runs the backend on the graph, and wraps what it returns in the call that generated code makes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch._guards import TracingContext, tracing

from dynamo_lite import _C
from dynamo_lite.backends.results import described, wrong_results_handler
from dynamo_lite.codegen.rerun import checking_assertions, restoring_inputs
from dynamo_lite.exc import BackendCompilerFailed, WrongBackendResult
from dynamo_lite.insight.counters import counters
from dynamo_lite.insight.observer import Observer
from dynamo_lite.records.runtime_assertions import AssertionFailures
from dynamo_lite.runtime.interrupts import reraise_if_from_signal

from .backend_traits import Backend, BackendTraits
from .ddp_stages import active_ddp, in_stages
from .observers import without_dispatch_modes
from .translation import Translation


@dataclass(frozen=True)
class CompiledGraph:
    """``call``: None if there is nothing to compute. ``seconds``: of the backend."""

    call: _C.GraphCall | None
    seconds: float


def compile_graph(
    translation: Translation, backend: Backend, name: str, *, fullgraph: bool, observer: Observer | None
) -> CompiledGraph:
    """Hand the graph to the backend.

    Raises:
        BackendCompilerFailed: it raised, or returned something that can't be called.
    """
    attempt, cg = translation.attempt, translation.cg
    if not attempt.graph.operators or _gives_nothing(translation):
        return CompiledGraph(None, 0.0)
    expected = [each.tensor.node for each in attempt.runtime_assertions]
    gm = attempt.graph.finish([*(tensor.node for tensor in cg.outputs), *expected])
    attempt.graph.symbols.check_marks()
    counters.graphs += 1
    counters.operators += attempt.graph.operators
    if observer is not None:
        observer.graphs.append(gm)
    ddp = active_ddp()
    staged = backend if ddp is None else in_stages(backend, ddp)
    started = time.perf_counter()
    try:
        with tracing(TracingContext(attempt.graph.fake_mode)), without_dispatch_modes():
            compiled = _C.call_watched(staged, gm, [each.example for each in attempt.graph.inputs])
    except Exception as error:
        reraise_if_from_signal(error)
        raise BackendCompilerFailed(name, error) from error
    if not callable(compiled):
        raise WrongBackendResult(name, f"returned {described(compiled)}, which can't be called")
    call = _call_of(compiled, translation, name, counts_failures=not fullgraph)
    return CompiledGraph(call, time.perf_counter() - started)


def _gives_nothing(translation: Translation) -> bool:
    """Whether the graph has no results, and only names its inputs anew (the data of arrays)."""
    attempt = translation.attempt
    operators = (node for node in attempt.graph.graph.nodes if node.op != "placeholder")
    has_results = translation.cg.outputs or attempt.runtime_assertions
    return not has_results and all(node.target is getattr for node in operators)


def _call_of(compiled: Callable[..., Any], translation: Translation, name: str, counts_failures: bool) -> _C.GraphCall:
    """The call of what the backend returned. Around it: runtime assertions are checked, inputs that it mutates are
    restored where the frame is run again, the number of results is checked."""
    attempt, outputs = translation.attempt, len(translation.cg.outputs)
    graph, truths = attempt.graph, [each.truth for each in attempt.runtime_assertions]
    wrong = wrong_results_handler(name, outputs + len(truths))
    if truths:
        unmet = _failures_of(translation) if counts_failures else None
        compiled = checking_assertions(
            _C.GraphCall(compiled, outputs=outputs + len(truths), wrong=wrong), truths, unmet
        )
    written = [at for at, each in enumerate(graph.inputs) if each.source in graph.written]
    if graph.fails_handled and written:
        compiled = restoring_inputs(compiled, written)
    captured = sum(each.captured for each in graph.inputs)
    return _C.GraphCall(compiled, captured, graph.changes_state, outputs, wrong)


def _failures_of(translation: Translation) -> AssertionFailures:
    """Counts failures of the graph's runtime assertions, and ends the entry after too many."""
    attempt = translation.attempt
    sites = [each.site for each in attempt.runtime_assertions]
    return AssertionFailures(translation.cg.code.co_qualname, translation.shapes.history, attempt.guards.held(), sites)


def traits_without(translation: Translation, traits: BackendTraits) -> BackendTraits | None:
    """Those of a backend that failed on this graph, if it may succeed on graphs that ask less of it."""
    attempt = translation.attempt
    if attempt.graph.differentiates:
        return replace(traits, gradients=False)  # AOTAutograd can't trace each operator's second derivative
    if attempt.has_wrappers and traits.wrappers:
        return replace(traits, wrappers=False)  # AOTAutograd calls operators of a class that the program doesn't
    return None
