"""The records that `dl.report` shows: all that is compiled in the process while a report is on.

Records consist of text and numbers. They keep no code, graph or tensor alive.
While `RECORDING.now` is None, nothing is recorded and calls cost nothing extra.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from types import CodeType
from typing import TypeVar

from torch.utils.weak import WeakIdKeyDictionary

from .observer import GraphBreak, Recompile
from .regions import Regions

R = TypeVar("R")
MOST_SPANS = 20_000
"""The most spans that are recorded. Further runs of graphs are only counted."""


@dataclass(frozen=True)
class Place:
    """Lines of the program from ``first`` to ``last`` (inclusive), in a call of ``function``."""

    filename: str
    first: int
    last: int
    function: str


@dataclass(frozen=True)
class NodeRecord:
    """One node of a graph. ``kind``: "input", "parameter", "operator" or "output"."""

    name: str
    kind: str
    what: str
    """The operator; of an input, its place in the program: ``self.fc.weight``."""
    inputs: list[str]
    """The names of the nodes whose results it takes."""
    result: str
    """If it is a tensor, its dtype and shape, as ``f32[2, 4]``."""
    places: list[Place]
    """The program's frames that led there, outermost first."""

    @property
    def is_input(self) -> bool:
        return self.kind in ("input", "parameter")


@dataclass
class GraphRecord:
    """A graph that was handed to a backend. ``run_seconds`` is host time: a device may still be at work."""

    number: int
    backend: str
    code: str
    nodes: list[NodeRecord]
    output_code: list[str] = field(default_factory=list)
    """What the backend generated for it, as far as it says: Inductor's code of its kernels and their calls."""
    regions: Regions | None = None
    """The pieces in which it was compiled, unless whole."""
    runs: int = 0
    run_seconds: float = 0.0

    @property
    def operators(self) -> int:
        return sum(node.kind == "operator" for node in self.nodes)


@dataclass(frozen=True)
class GuardRecord:
    """One check: ``self.step`` and ``== 3``. ``seconds``: the time of a full check; None if it couldn't be measured."""

    place: str
    text: str
    seconds: float | None


@dataclass
class EntryRecord:
    """Code that was compiled for a function, or for its rest after a graph break."""

    function: str
    filename: str
    lineno: int
    is_rest: bool
    graph: int | None
    guards: list[GuardRecord]
    check_seconds: float
    """The time of one check of all guards when nothing has changed."""
    seconds: dict[str, float]
    """By stage: ``trace``, ``backend``, ``code``."""
    ended_by: GraphBreak | None
    stack: list[Place]
    """The program's frames that called it, outermost first."""
    continues: GraphBreak | None = None
    """The break after which it goes on."""
    recompile: RecompileRecord | None = None
    """Why it was compiled, although the function had entries."""
    hits: int | None = None
    """Calls that ran it, up to the end of the report. None if it was dropped before."""


@dataclass(frozen=True)
class SkipRecord:
    """A function whose frames run in eager."""

    function: str
    filename: str
    lineno: int
    why: str


@dataclass(frozen=True)
class RecompileRecord(Recompile):
    """A recompilation with its time. ``at``: seconds since the report began."""

    at: float


@dataclass(frozen=True)
class Span:
    """A stretch of time, in seconds since the report began. ``stage``: "trace", "backend", "code" or "run"."""

    stage: str
    name: str
    began: float
    seconds: float
    thread: int
    graph: int | None


@dataclass
class Recorder:
    """All that is compiled from its creation until `finish`."""

    entries: list[EntryRecord] = field(default_factory=list)
    graphs: list[GraphRecord] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    skips: list[SkipRecord] = field(default_factory=list)
    recompiles: list[RecompileRecord] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    late_code: list[str] = field(default_factory=list)
    """What a backend generated outside of its call: for a backward, or in the background."""
    seconds: float = 0.0
    """The time from its creation to `finish`."""
    began: float = field(default_factory=time.perf_counter)
    is_over: bool = False
    continuations: MutableMapping[CodeType, GraphBreak] = field(default_factory=WeakIdKeyDictionary)
    """Code of resume functions -> the break that it goes on after."""
    at_end: list[Callable[[], None]] = field(default_factory=list)
    """Functions that complete records with what is known only at the end. `finish` calls them."""
    _begun: dict[int, RecompileRecord] = field(default_factory=dict)
    """Thread -> its recompilation that has no entry yet."""
    _compiled_by: dict[int, GraphRecord] = field(default_factory=dict)
    """Thread -> the graph that its backend compiles."""

    def take_recompile(self, function: str, filename: str, lineno: int) -> RecompileRecord | None:
        """The recompilation of this function that has begun on this thread and has no entry yet."""
        begun = self._begun.pop(threading.get_ident(), None)
        place = (function, filename, lineno)
        return begun if begun is not None and (begun.function, begun.filename, begun.lineno) == place else None

    def break_before(self, entry: EntryRecord, code: CodeType) -> GraphBreak | None:
        """The break that a resume function goes on after; if that isn't known, the last of its function."""
        if code in self.continuations:
            return self.continuations[code]
        if not entry.is_rest:
            return None
        place = (entry.function, entry.filename, entry.lineno)
        ended = (e.ended_by for e in reversed(self.entries) if (e.function, e.filename, e.lineno) == place)
        return next((each for each in ended if each is not None), None)

    def note_recompile(self, record: RecompileRecord) -> None:
        self.recompiles.append(record)
        self._begun[threading.get_ident()] = record

    @contextlib.contextmanager
    def compiling(self, graph: GraphRecord) -> Iterator[None]:
        """Inside of it, code that this thread's backend generates belongs to the graph."""
        thread = threading.get_ident()
        self._compiled_by[thread] = graph
        try:
            yield
        finally:
            del self._compiled_by[thread]

    def note_code(self, code: str) -> None:
        """Record code that a backend has generated on this thread."""
        graph = self._compiled_by.get(threading.get_ident())
        (self.late_code if graph is None else graph.output_code).append(code)

    def note_span(self, stage: str, name: str, began: float, seconds: float, graph: int | None) -> None:
        """Record a time span. ``began``: its start, as `time.perf_counter` returned it."""
        self.spans.append(Span(stage, name, began - self.began, seconds, threading.get_native_id(), graph))

    def timed(self, graph: GraphRecord, compiled: Callable[..., R]) -> Callable[..., R]:
        """Wrap a compiled graph so that its runs are recorded until the end."""

        def run(*inputs: object) -> R:
            if self.is_over:
                return compiled(*inputs)
            began = time.perf_counter()
            try:
                return compiled(*inputs)
            finally:
                seconds = time.perf_counter() - began
                graph.runs += 1
                graph.run_seconds += seconds
                if len(self.spans) < MOST_SPANS:
                    self.note_span("run", f"graph {graph.number}", began, seconds, graph.number)

        return run

    def finish(self) -> None:
        """Stop recording and complete the records."""
        self.seconds = time.perf_counter() - self.began
        self.is_over = True
        for complete in self.at_end:
            complete()
        self.at_end.clear()


class _Recording:
    """The process's recorder, if a report is on."""

    now: Recorder | None = None


RECORDING = _Recording()
