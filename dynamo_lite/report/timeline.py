"""The timeline of a report: for Perfetto in the Chrome trace format, and as charts of the page."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from dynamo_lite.insight.recorder import Recorder, Span

MOST_BARS = 400
"""The most bars of a stage on the page, which shows the longest. The trace has all."""
STAGES = {"trace": "tracing", "backend": "backend", "code": "guards and code", "run": "running graphs"}
_MOST_TICKS = 5


def chrome_trace(recorder: Recorder) -> dict[str, object]:
    """An object of the Chrome trace format: complete events in microseconds, one for each span."""
    process = os.getpid()
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "dynamo_lite"}}
    ]
    for span in recorder.spans:
        args = {} if span.graph is None else {"graph": span.graph}
        event = {"ph": "X", "name": f"{span.stage}: {span.name}", "cat": span.stage, "tid": span.thread, "args": args}
        events.append({**event, "pid": process, "ts": span.began * 1e6, "dur": span.seconds * 1e6})
    for each in recorder.recompiles:
        what = {"function": each.function, "change": each.change, "hint": each.hint}
        event = {"ph": "i", "name": f"recompile: {each.function}", "cat": "recompile", "s": "p"}
        events.append({**event, "pid": process, "tid": 0, "ts": each.at * 1e6, "args": what})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


@dataclass(frozen=True)
class Bar:
    """A span on the page. ``left`` and ``width``: in percent of its chart."""

    left: float
    width: float
    span: Span


@dataclass(frozen=True)
class Row:
    """One stage. ``seconds`` and ``count`` are totals, which include spans without a bar."""

    title: str
    seconds: float
    count: int
    bars: list[Bar]


@dataclass(frozen=True)
class Tick:
    """A mark of the axis. ``left``: in percent of the chart."""

    left: float
    seconds: float


@dataclass(frozen=True)
class Chart:
    """Rows on one axis, which begins at the first span."""

    title: str
    rows: list[Row]
    ticks: list[Tick]


def charts(recorder: Recorder) -> list[Chart]:
    """Compiling, and running with the time of compiling cut out: a run takes microseconds where compiling takes
    seconds."""
    compiled = [span for span in recorder.spans if span.stage != "run"]
    ran = [span for span in recorder.spans if span.stage == "run"]
    found = []
    if compiled:
        first, whole = _extent([(span.began, span.seconds) for span in compiled])
        rows = [
            _row(title, [(span, span.began) for span in compiled if span.stage == stage], first, whole)
            for stage, title in STAGES.items()
            if stage != "run"
        ]
        found.append(Chart("Compiling", rows, _ticks(whole)))
    if ran:
        busy = _merged(compiled)
        moved = [(span, span.began - _busy_before(busy, span.began)) for span in ran]
        first, whole = _extent([(began, span.seconds) for span, began in moved])
        row = _row(STAGES["run"], moved, first, whole)
        seconds, count = sum(each.run_seconds for each in recorder.graphs), sum(each.runs for each in recorder.graphs)
        found.append(Chart("Running", [Row(row.title, seconds, count, row.bars)], _ticks(whole)))
    return found


def totals(recorder: Recorder) -> dict[str, float]:
    """The seconds of each stage, by its title."""
    found = {
        title: sum(span.seconds for span in recorder.spans if span.stage == stage) for stage, title in STAGES.items()
    }
    found[STAGES["run"]] = sum(graph.run_seconds for graph in recorder.graphs)
    return found


def _extent(stretches: list[tuple[float, float]]) -> tuple[float, float]:
    """Where the first begins, and the time from there to the end of the last."""
    first = min(began for began, _ in stretches)
    return first, max(began + seconds for began, seconds in stretches) - first or 1e-6


def _row(title: str, spans: list[tuple[Span, float]], first: float, whole: float) -> Row:
    """``spans``: each with where it begins on the axis."""
    longest = sorted(spans, key=lambda pair: -pair[0].seconds)[:MOST_BARS]
    bars = [Bar(100 * (began - first) / whole, 100 * span.seconds / whole, span) for span, began in longest]
    return Row(title, sum(span.seconds for span, _ in spans), len(spans), bars)


def _ticks(whole: float) -> list[Tick]:
    """Round numbers, from zero on."""
    unit = 10.0 ** math.floor(math.log10(whole))
    step = next(unit * by for by in (0.1, 0.2, 0.5, 1, 2, 5, 10) if whole / (unit * by) <= _MOST_TICKS)
    return [Tick(100 * at * step / whole, at * step) for at in range(int(whole / step) + 1)]


def _merged(spans: list[Span]) -> list[tuple[float, float]]:
    """The stretches in which anything was compiled, as begin and end, in order."""
    found: list[tuple[float, float]] = []
    for span in sorted(spans, key=lambda each: each.began):
        end = span.began + span.seconds
        if found and span.began <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((span.began, end))
    return found


def _busy_before(busy: list[tuple[float, float]], moment: float) -> float:
    return sum(min(end, moment) - began for began, end in busy if began < moment)
