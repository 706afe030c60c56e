"""Runs the backend on the graph, and wraps what it returns in the call that generated code makes."""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch.fx
from torch._guards import TracingContext, tracing

from dynamo_lite import _C, logs
from dynamo_lite.attempt.attempt import Attempt
from dynamo_lite.backends.registry import Backend
from dynamo_lite.backends.results import described, wrong_results_handler
from dynamo_lite.codegen.rerun import checking_assertions, restoring_inputs
from dynamo_lite.exc import BackendCompilerFailed, WrongBackendResult
from dynamo_lite.insight.counters import counters
from dynamo_lite.insight.observer import Observer
from dynamo_lite.insight.recorder import RECORDING, GraphRecord
from dynamo_lite.insight.regions import REGIONS
from dynamo_lite.records.surroundings import BackendTraits
from dynamo_lite.records.unused_effects import unused_effects
from dynamo_lite.runtime.interrupts import reraise_if_asynchronous, with_garbage_collection
from dynamo_lite.variables.torch.higher_order.later_calls import LaterFunctions

from .ddp_stages import active_ddp, in_stages
from .frame_identity import FrameIdentity
from .observers import without_dispatch_modes
from .recording import graph_record
from .translation import Translation


@dataclass(frozen=True)
class CompiledGraph:
    """``call`` and ``graph``: None if there is nothing to compute. ``seconds``: of the backend. ``record``: of it,
    if a report is on. ``calls_aotautograd``: the backend turned out to. ``must_translate_again``: the graph has
    functions that run later, or random numbers that nothing uses, which are translated otherwise for such a backend."""

    call: _C.GraphCall | None
    graph: torch.fx.GraphModule | None
    seconds: float
    record: GraphRecord | None = None
    calls_aotautograd: bool = False
    must_translate_again: bool = False


def compile_graph(
    translation: Translation,
    frame: FrameIdentity,
    backend: Backend,
    name: str,
    observer: Observer | None,
) -> CompiledGraph:
    """Hand the graph to the backend.

    Raises:
        BackendCompilerFailed: it raised, or returned something that can't be called.
    """
    attempt = translation.attempt
    if not attempt.graph.operators or _computes_nothing(translation):
        return CompiledGraph(None, None, 0.0)
    expected = [each.tensor.node for each in attempt.runtime_assertions]
    results = [*translation.outputs, *expected]
    unused: list[torch.fx.Node] = []
    if attempt.graph.communicates or attempt.traits.frees_at_once:
        unused = unused_effects(attempt.graph, results, compiles=attempt.traits.frees_at_once)
    gm = attempt.graph.finish([*results, *unused])
    attempt.graph.symbols.check_marks()
    counters.graphs += 1
    counters.operators += attempt.graph.operators
    if observer is not None:
        observer.graphs.append(gm)
    recorder = RECORDING.now
    record = None if recorder is None else graph_record(recorder, translation, frame, gm, name)
    if logs.graph.isEnabledFor(logging.INFO):
        logs.graph.info("of %s:\n%s", frame.place, gm.print_readable(print_output=False))
    ddp = active_ddp()
    staged = backend if ddp is None else in_stages(backend, ddp)
    started = time.perf_counter()
    context = TracingContext(attempt.graph.fake_mode)
    try:
        with (
            tracing(context),
            without_dispatch_modes(),
            with_garbage_collection(),
            _keeping_equal_collectives(attempt),
            contextlib.nullcontext() if recorder is None or record is None else recorder.compiling(record),
        ):
            compiled = _C.call_watched(staged, gm, [each.example for each in attempt.graph.inputs])
    except Exception as error:
        reraise_if_asynchronous(error)
        raise BackendCompilerFailed(name, error) from error
    if not callable(compiled):
        raise WrongBackendResult(name, f"returned {described(compiled)}, which can't be called")
    if recorder is not None and record is not None:
        record.regions = gm.meta.get(REGIONS)
        compiled = recorder.timed(record, compiled)
    call = _call_of(compiled, translation, name, len(unused))
    seconds = time.perf_counter() - started
    if context.fw_metadata is None or attempt.traits.frees_at_once:
        return CompiledGraph(call, gm, seconds, record)
    translated_otherwise = bool(attempt.state(LaterFunctions) or unused_effects(attempt.graph, results, compiles=True))
    return CompiledGraph(call, gm, seconds, record, calls_aotautograd=True, must_translate_again=translated_otherwise)


def _keeping_equal_collectives(attempt: Attempt) -> contextlib.AbstractContextManager[object]:
    """A block in which AOTAutograd doesn't merge equal operators: a process that runs the frame in eager would wait for
    the second of two equal collectives."""
    if not attempt.graph.communicates:
        return contextlib.nullcontext()
    return importlib.import_module("torch._functorch.config").patch(cse=False)


def _without_last(compiled: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A compiled graph without its last results."""
    return lambda *inputs: compiled(*inputs)[:-count]


def _computes_nothing(translation: Translation) -> bool:
    """Whether the graph has no results, and only reads attributes of its inputs (the data of arrays)."""
    attempt = translation.attempt
    operators = (node for node in attempt.graph.graph.nodes if node.op != "placeholder")
    has_results = translation.outputs or attempt.runtime_assertions
    return not has_results and all(node.target is getattr for node in operators)


def _call_of(compiled: Callable[..., Any], translation: Translation, name: str, unused: int) -> _C.GraphCall:
    """The call of what the backend returned. Around it: runtime assertions are checked, inputs that it mutates are
    restored where the frame is run again, the number of results is checked."""
    attempt, outputs = translation.attempt, len(translation.outputs)
    graph, truths = attempt.graph, [each.truth for each in attempt.runtime_assertions]
    wrong = wrong_results_handler(name, outputs + len(truths) + unused)
    if unused:
        compiled = _without_last(_C.GraphCall(compiled, outputs=outputs + len(truths) + unused, wrong=wrong), unused)
    if truths:
        compiled = checking_assertions(_C.GraphCall(compiled, outputs=outputs + len(truths), wrong=wrong), truths)
    written = [at for at, each in enumerate(graph.inputs) if each.source in graph.written]
    if graph.fails_handled and written:
        compiled = restoring_inputs(compiled, written)
    captured = sum(each.captured for each in graph.inputs)
    return _C.GraphCall(compiled, captured, graph.changes_state, outputs, wrong)


def traits_without(translation: Translation) -> BackendTraits | None:
    """Traits under which a backend that failed on this graph may succeed; None: there are none."""
    attempt, traits = translation.attempt, translation.attempt.traits
    if attempt.graph.differentiates:
        return replace(traits, gradients=False)  # AOTAutograd can't trace each operator's second derivative
    if attempt.has_wrappers and traits.wrappers:
        return replace(traits, wrappers=False)  # AOTAutograd calls operators of a class that the program doesn't
    if attempt.has_masked_writes and traits.masked_writes:
        return replace(traits, masked_writes=False)
    return None
