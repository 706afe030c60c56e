"""What a check finds: graph breaks and exceeded limits, each with code, place in the user's source and hint."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from traceback import FrameSummary

from dynamo_lite.insight.break_reasons import UncaughtException
from dynamo_lite.insight.counters import counted
from dynamo_lite.insight.observer import GraphBreak, folded

NOTHING_CAPTURED = "nothing-captured"
TOO_MANY_GRAPHS = "too-many-graphs"
TOO_MANY_RECOMPILES = "too-many-recompiles"
BACKEND_FAILED = "backend-failed"
NOT_TRAINED = "not-trained"
FIXED = "fixed"
TARGET_FAILED = "target-failed"

SUMMARIES = {
    NOTHING_CAPTURED: "no graph was captured, so there is nothing to check",
    TOO_MANY_GRAPHS: "one call has more graphs than are allowed",
    TOO_MANY_RECOMPILES: "more frames were translated again than is allowed",
    BACKEND_FAILED: "the backend failed on a graph, or a size contradicts how it was marked",
    NOT_TRAINED: "no gradient was computed through what was captured",
    FIXED: "fullgraph.toml allows a break that no longer occurs",
    TARGET_FAILED: "the target doesn't exist, isn't a valid target, or raised an exception",
}
"""Findings that are no graph breaks, by their codes. A graph break has the code of its reason."""


@dataclass(frozen=True)
class Place:
    """A line of the program. ``file``: from the current directory where it is below it, with forward slashes."""

    file: str
    line: int
    function: str
    """Its qualified name."""
    text: str
    """The line, stripped."""

    @classmethod
    def of(cls, frame: FrameSummary) -> Place:
        linecache.checkcache(frame.filename)
        text = linecache.getline(frame.filename, frame.lineno or 0).strip()
        return cls(_from_here(frame.filename), frame.lineno or 0, frame.name, text)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def _from_here(filename: str) -> str:
    path, here = Path(os.path.abspath(filename)), Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.as_posix()


@dataclass(frozen=True)
class Finding:
    """A fault of what was captured, or a graph break that is allowed."""

    code: str
    """Of a graph break its reason's (``DL0302``), else one of `SUMMARIES`."""
    message: str
    hint: str
    place: Place | None = None
    """In the program's own source, where there is one."""
    stack: tuple[Place, ...] = ()
    """Of a graph break, the frames down to it, outermost first. The innermost may be in a library."""

    @classmethod
    def of_break(cls, graph_break: GraphBreak) -> Finding:
        frames = graph_break.frames
        place = Place.of(graph_break.place)
        reason = graph_break.reason
        return cls(reason.code, reason.what(), reason.hint(), place, tuple(Place.of(frame) for frame in frames))

    def __str__(self) -> str:
        where = "" if self.place is None else f"{self.place}: "
        code = self.code if self.code.startswith("DL") else f"{self.code}:"
        lines = [f"{where}{code} {self.message}"]
        if self.place is not None and self.place.text:
            lines.append(f"    {self.place.text}")
        if self.stack and self.stack[-1] != self.place:
            lines.append(f"  in {self.stack[-1]} ({self.stack[-1].function})")
        lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


def breaks_found(breaks: Iterable[GraphBreak]) -> list[Finding]:
    """One for each construct of the program, in the order in which they were met. An exception that the program itself
    raises breaks nothing."""
    meant = (each for each in breaks if not isinstance(each.reason, UncaughtException))  # as under ``fullgraph``
    return [Finding.of_break(each.first) for each in folded(meant)]


@dataclass(frozen=True)
class Limits:
    """How many graphs and recompilations there may be."""

    max_graphs: int | None = None
    """Graphs of one call. None: one, and no graph break; more where fullgraph.toml allows the breaks between them."""
    max_recompiles: int = 0
    """Frames that are translated again, in all calls."""


@dataclass
class Result:
    """What a check of one target found."""

    target: str
    graphs: int = 0
    """Graphs of the call that has most."""
    recompiles: list[str] = field(default_factory=list)
    """Each with the guards that failed."""
    findings: list[Finding] = field(default_factory=list)
    """What is wrong."""
    allowed: list[Finding] = field(default_factory=list)
    """Graph breaks that the limits or fullgraph.toml allow."""
    seconds: float = 0.0
    """How long the check took."""

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def could_be_checked(self) -> bool:
        return all(each.code != TARGET_FAILED for each in self.findings)

    def summary(self) -> str:
        """One line."""
        if not self.could_be_checked:
            return f"{self.target}: not checked"
        breaks = sum(each.code.startswith("DL") for each in (*self.findings, *self.allowed))
        allowed = f" ({len(self.allowed)} allowed)" if self.allowed else ""
        counts = (counted(self.graphs, "graph"), counted(breaks, "break") + allowed)
        return f"{self.target}: {', '.join(counts)}, {counted(len(self.recompiles), 'recompile')}"
