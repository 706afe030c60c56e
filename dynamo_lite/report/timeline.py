"""The timeline of a report: for Perfetto in the Chrome trace format, and as bars of the page."""

from __future__ import annotations

import os
from dataclasses import dataclass

from dynamo_lite.insight.recorder import Recorder, Span

MOST_BARS = 400
"""The most bars of a stage on the page, which shows the longest. The trace has all."""
STAGES = {"trace": "tracing", "backend": "backend", "code": "guards and code", "run": "running graphs"}


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
    """A span on the page. ``left`` and ``width``: in percent of the timeline."""

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


def rows(recorder: Recorder) -> list[Row]:
    """A row for each stage, from the first span to the last."""
    if not recorder.spans:
        return []
    begins = min(span.began for span in recorder.spans)
    whole = max(span.began + span.seconds for span in recorder.spans) - begins or 1.0
    found = []
    for stage, title in STAGES.items():
        spans = [span for span in recorder.spans if span.stage == stage]
        seconds, count = sum(span.seconds for span in spans), len(spans)
        if stage == "run":
            seconds = sum(graph.run_seconds for graph in recorder.graphs)
            count = sum(graph.runs for graph in recorder.graphs)
        longest = sorted(spans, key=lambda span: -span.seconds)[:MOST_BARS]
        bars = [Bar(100 * (span.began - begins) / whole, 100 * span.seconds / whole, span) for span in longest]
        found.append(Row(title, seconds, count, bars))
    return found
