"""Counts and logs new entries, graph breaks and frames that run in eager, and reports them to observers."""

from __future__ import annotations

import logging
from traceback import FrameSummary
from types import CodeType
from typing import NamedTuple

from dynamo_lite import _C, logs
from dynamo_lite.exc import SkipFrame, Unsupported
from dynamo_lite.insight.break_reasons import FrameLeftAlone
from dynamo_lite.insight.code_text import as_text
from dynamo_lite.insight.counters import counters
from dynamo_lite.insight.observer import Constructs, GraphBreak, Observer
from dynamo_lite.insight.recorder import RECORDING, GraphRecord
from dynamo_lite.insight.site import code_place
from dynamo_lite.resume.resume_code import original_position
from dynamo_lite.variables.core.base import VariableTracker
from dynamo_lite.variables.python.objects.user_object import UserObjectVariable

from .entry import Entry
from .frame_identity import FrameIdentity, FramePlace
from .recording import record_entry, record_skip
from .translation import Translation


class _Logged:
    """The constructs whose breaks are in the log, where each is told once."""

    constructs = Constructs()


def forget_breaks() -> None:
    """Count and log each construct again at its next break."""
    _Logged.constructs = Constructs()
    counters.forget_constructs()


class Times(NamedTuple):
    """Seconds of the stages of one translation, named as in `Observer.times`."""

    trace: float
    backend: float
    code: float


def report_writes(translation: Translation, frame: FrameIdentity) -> None:
    """Log what the new code will write to after its graph."""
    effects = translation.attempt.effects
    if effects.empty or not logs.side_effects.isEnabledFor(logging.INFO):
        return
    written = [text for each in effects.changed_trackers for text in _written(each, frame)]
    written += [f"the global {name}" for _, name in effects.written_globals]
    logs.side_effects.info("%s writes after its graph: %s", frame.place, ", ".join(written))


def _written(tracker: VariableTracker, frame: FrameIdentity) -> list[str]:
    """An object that is written to, or its attributes."""
    if tracker.source is None:
        return []
    place = str(tracker.source)
    attributes = tracker.attrs if isinstance(tracker, UserObjectVariable) else ()
    return [f"{place}.{name}" for name in attributes] or [f"{place} ({tracker.describe()})"]


def report_entry(
    frame: FrameIdentity,
    entry: Entry,
    graph_break: GraphBreak | None,
    times: Times,
    observer: Observer | None,
    graph: GraphRecord | None,
) -> None:
    """Count, log and report a new entry. ``graph``: the record of its graph, for a report."""
    if RECORDING.now is not None:
        record_entry(RECORDING.now, frame, entry[:2], graph_break, times._asdict(), graph)
    counters.frames += 1
    counters.trace_seconds += times.trace + times.code
    counters.backend_seconds += times.backend
    if graph_break is not None:
        report_break(graph_break, observer)
    if observer is not None:
        observer.guards.extend(texts_of_guards(entry[0]))
        observer.guard_seconds.extend(entry[0].seconds_of_checks(frame.view))
        observer.lookups.append(entry[0].cost(frame.view, 100))
        for stage, seconds in zip(times._fields, times):
            observer.times[stage] += seconds
    if logs.perf.isEnabledFor(logging.INFO):
        stages = ", ".join(f"{stage} {seconds * 1e3:.1f} ms" for stage, seconds in zip(times._fields, times))
        logs.perf.info(
            "%s: %s; a check of its guards takes %.2f us", frame.place, stages, entry[0].cost(frame.view) * 1e6
        )
    if logs.guards.isEnabledFor(logging.INFO):
        logs.guards.info("of %s:\n  %s", frame.place, "\n  ".join(texts_of_guards(entry[0])))
    if logs.bytecode.isEnabledFor(logging.INFO):
        logs.bytecode.info("of %s:\n%s", frame.place, as_text(entry[1]))


def texts_of_guards(tree: _C.GuardTree) -> list[str]:
    """What the guards of a tree check, in words."""
    return [str(reason) for reason, _, _ in tree.checks()]


def report_break(graph_break: GraphBreak, observer: Observer | None) -> None:
    """Count, log and report a graph break."""
    counters.count_break(graph_break)
    if logs.breaks.isEnabledFor(logging.DEBUG):
        logs.breaks.info("%s%s\n%s", logs.rank(), graph_break, graph_break.stack())
    elif logs.breaks.isEnabledFor(logging.INFO) and _Logged.constructs.is_new(graph_break):
        logs.breaks.info("%s%s", logs.rank(), graph_break)
    if observer is not None:
        observer.breaks.append(graph_break)
    if RECORDING.now is not None:
        RECORDING.now.breaks.append(graph_break)


def report_once_in_eager(place: FramePlace, why: str, observer: Observer | None) -> None:
    """Log and report a call that runs in eager, and whose frame is translated in the next call."""
    text = f"this call of {place} runs in eager: {why}"
    logs.breaks.info("%s", text)
    if observer is not None:
        observer.given_up.append(text)


def report_skip(code: CodeType, skipped: SkipFrame, fullgraph: bool, observer: Observer | None) -> None:
    """Count, log and report a frame that is given up as a whole.

    Raises:
        Unsupported: under ``fullgraph``, where that loses something.
    """
    counters.skips += 1
    given_up = f"{code_place(code)} runs in eager: {skipped.why}"
    logs.breaks.debug("%s", given_up)
    if observer is not None:
        observer.given_up.append(given_up)
    original = original_position(code, 0)[0]
    record_skip((original.co_qualname, original.co_filename, original.co_firstlineno), skipped.why)
    if not skipped.loses:
        return
    cause = skipped.cause
    first_line = FrameSummary(code.co_filename, code.co_firstlineno, code.co_qualname, lookup_line=False)
    stack = (first_line,) if cause is None else cause.user_stack
    reason = FrameLeftAlone(code.co_qualname, skipped.why, None if cause is None else cause.reason)
    if fullgraph:
        raise Unsupported(reason, stack)
    report_break(GraphBreak(reason, stack), observer)
