"""The records that `dl.explain` reports: graphs, graph breaks, guards and recompilations of one owner."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from traceback import FrameSummary, StackSummary
from typing import TYPE_CHECKING, NamedTuple

from .break_reason import BreakReason
from .program_files import innermost_of_program, line_place, short_name, without_ours

if TYPE_CHECKING:
    from torch.fx import GraphModule


@dataclass(frozen=True)
class GraphBreak:
    """A place where a graph ended early. ``user_stack``: the user's frames, outermost first."""

    reason: BreakReason
    user_stack: tuple[FrameSummary, ...]

    @property
    def hint(self) -> str:
        return self.reason.hint()

    @property
    def frames(self) -> Sequence[FrameSummary]:
        """The frames of ``user_stack`` that are shown."""
        return without_ours(self.user_stack)

    @property
    def place(self) -> FrameSummary:
        """The innermost frame of the program's own source. The graph may have ended in a library that it called."""
        return innermost_of_program(self.frames)

    @property
    def filename(self) -> str:
        return self.place.filename

    @property
    def lineno(self) -> int:
        return self.place.lineno or 0

    @property
    def construct(self) -> tuple[object, ...]:
        """What of the program broke: the reason, numbers in its text aside, and where. A loop, or another version of
        its function, breaks at one construct again."""
        return self._construct_in(self.place)

    @property
    def construct_alone(self) -> tuple[object, ...]:
        """The `construct` of the same break in a translation of the innermost frame alone. After a break in a callee,
        CPython calls the callee, and its frame is translated by itself."""
        return self._construct_in(self.frames[-1])

    def _construct_in(self, place: FrameSummary) -> tuple[object, ...]:
        inner = self.frames[-1]
        where = place.filename, place.lineno or 0, inner.filename, inner.lineno
        return self.reason.code, _NUMBER.sub("", self.reason.what()), *where

    def at(self) -> str:
        """The line of its `place`, and where in a library the graph ended."""
        return line_place(self.filename, self.lineno) + self.inside()

    def inside(self) -> str:
        """Where in a library the graph ended, after its `place`: `` (pathlib.py:1077, Path.open)``; else empty."""
        frame = self.frames[-1]
        return "" if frame is self.place else f" ({short_name(frame.filename)}:{frame.lineno}, {frame.name})"

    def __str__(self) -> str:
        """In one line, as in the log."""
        place = f"{line_place(self.filename, self.lineno)} in {self.place.name}{self.inside()}"
        return f"{self.reason.code} at {place}: {self.reason.what().removesuffix('.')}. Hint: {self.hint}"

    def stack(self) -> str:
        """The program's lines that led there, as a traceback shows them."""
        return "".join(StackSummary.from_list(list(self.frames)).format()).rstrip()


_NUMBER = re.compile(r"\d+")


class Constructs:
    """The constructs that have broken, without those that follow from another on their line. The log, `dl.explain` and
    ``dynamo-lite check`` tell each once, and ``dl.counters.graph_breaks`` counts them;
    ``dl.counters.broken_translations`` counts each break."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._of_lines: dict[tuple[str, int], int] = {}
        self._count = 0

    def number_of(self, graph_break: GraphBreak) -> int:
        """The number of its construct, in the order in which they broke first; of what follows from a break on the same
        line, or in what that line calls, the number of that."""
        line = graph_break.filename, graph_break.lineno
        new = self._of_lines.get(line, self._count) if graph_break.reason.may_follow else self._count
        number = self._numbers.setdefault(graph_break.construct, new)
        self._numbers.setdefault(graph_break.construct_alone, number)
        for caller in graph_break.frames:
            self._of_lines.setdefault((caller.filename, caller.lineno or 0), number)
        self._count = max(self._count, number + 1)
        return number

    def has(self, graph_break: GraphBreak) -> bool:
        """Whether its construct has broken."""
        return graph_break.construct in self._numbers

    def is_new(self, graph_break: GraphBreak) -> bool:
        """Whether its construct hadn't broken yet. From now on it has."""
        before = self._count
        return self.number_of(graph_break) == before


class Folded(NamedTuple):
    """The breaks of one construct of the program."""

    first: GraphBreak
    times: int
    """How often it broke."""
    following: list[GraphBreak]
    """What broke on the same line because it had, one for each construct."""


def folded(breaks: Iterable[GraphBreak]) -> list[Folded]:
    """Breaks by the construct of the program that causes them."""
    constructs = Constructs()
    found: dict[int, list[GraphBreak]] = {}
    for each in breaks:
        found.setdefault(constructs.number_of(each), []).append(each)
    return [of_one_cause(each) for each in found.values()]


def of_one_cause(breaks: list[GraphBreak]) -> Folded:
    """Breaks of one construct as one: the first is its root."""
    root = Constructs()
    root.number_of(breaks[0])
    following = {each.construct: each for each in breaks if not root.has(each)}
    return Folded(breaks[0], sum(map(root.has, breaks)), [*following.values()])


@dataclass(frozen=True)
class Recompile:
    """A call for which no entry's guards held, so that its frame is translated again."""

    function: str
    """The program's function: for a call of a module, its ``forward``."""
    filename: str
    lineno: int
    change: str
    """What has changed since the entry used last was made: ``self.step: 1, was 0``."""
    hint: str
    subject: str
    """What of the program changed, whatever it is now: ``self.step``."""

    def __str__(self) -> str:
        place = line_place(self.filename, self.lineno)
        return f"{self.function} ({place}) is compiled again: {self.change}. Hint: {self.hint}"


@dataclass
class Observer:
    """Collects what is compiled for one owner."""

    captures_data: bool = False
    """Whether data of tensors are captured as under ``fullgraph=True``, although graphs may break."""
    graphs: list[GraphModule] = field(default_factory=list)
    """In the order in which they were compiled."""
    breaks: list[GraphBreak] = field(default_factory=list)
    """Each with its reason, hint and place in the user's source."""
    guards: list[str] = field(default_factory=list)
    """The guards of all entries, as text."""
    plans: list[str] = field(default_factory=list)
    """For each entry, what its code does around the graph, a step a line."""
    recompiles: list[Recompile] = field(default_factory=list)
    """Frames that were translated again."""
    given_up: list[str] = field(default_factory=list)
    """Frames that run in eager as a whole, each with the reason."""
    not_compiled_here: list[BreakReason] = field(default_factory=list)
    """Why frames ran in eager where they were called. Elsewhere they can be captured."""
    times: dict[str, float] = field(default_factory=lambda: {"trace": 0.0, "backend": 0.0, "code": 0.0})
    """Seconds by stage: ``trace`` (symbolic interpretation), ``backend``, ``code`` (guards and bytecode)."""
    guard_seconds: list[float] = field(default_factory=list)
    """For each guard, the seconds of a full check. Most checks are skipped while nothing has changed, see `lookups`."""
    lookups: list[float] = field(default_factory=list)
    """For each entry, the seconds of a check of all its guards when nothing has changed."""
