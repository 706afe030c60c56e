"""What `dl.explain` reports: the graphs, graph breaks and guards of what was compiled while it watched."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from traceback import FrameSummary, StackSummary
from typing import TYPE_CHECKING

from .break_reason import BreakReason
from .program_files import innermost_of_program, without_ours

if TYPE_CHECKING:
    from torch.fx import GraphModule


@dataclass(frozen=True)
class GraphBreak:
    """One place where a graph ended early. ``user_stack``: the user's frames, outermost first."""

    reason: BreakReason
    user_stack: tuple[FrameSummary, ...]

    @property
    def hint(self) -> str:
        return self.reason.hint()

    @property
    def frames(self) -> Sequence[FrameSummary]:
        """``user_stack`` as it is shown."""
        return without_ours(self.user_stack)

    @property
    def place(self) -> FrameSummary:
        """The innermost frame of the program's own source: what it called there may be a library's."""
        return innermost_of_program(self.frames)

    @property
    def filename(self) -> str:
        return self.place.filename

    @property
    def lineno(self) -> int:
        return self.place.lineno or 0

    def inside(self) -> str:
        """Where in a library the graph ended, after its `place`: `` (pathlib.py:1077, Path.open)``; else empty."""
        frame = self.frames[-1]
        return "" if frame is self.place else f" ({os.path.basename(frame.filename)}:{frame.lineno}, {frame.name})"

    def line(self) -> str:
        """In one line, for a log."""
        place = f"{self.filename}:{self.lineno} in {self.place.name}{self.inside()}"
        return f"{self.reason.code} at {place}: {self.reason.what()}. Hint: {self.hint}"

    def stack(self) -> str:
        """The program's lines that led there, as a traceback shows them."""
        return "".join(StackSummary.from_list(list(self.frames)).format()).rstrip()


@dataclass(frozen=True)
class Recompile:
    """A call for which no entry's guards held, so that its frame is translated again."""

    function: str
    """Of the program: the ``forward`` of a module, whoever calls it."""
    filename: str
    lineno: int
    change: str
    """What is not what it was when the entry was made that was used last: ``self.step: 1, was 0``."""
    hint: str

    def __str__(self) -> str:
        return f"{self.function} ({self.filename}:{self.lineno}) is compiled again: {self.change}. Hint: {self.hint}"


STAGES = ("trace", "backend", "code")


@dataclass
class Observer:
    """Gathers what is compiled, for ``dl.explain``."""

    graphs: list[GraphModule] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    left_alone: list[BreakReason] = field(default_factory=list)
    """Why frames ran in eager that are captured elsewhere."""
    guard_seconds: list[float] = field(default_factory=list)
    """What each of the guards costs, where it is checked anew."""
    lookups: list[float] = field(default_factory=list)
    """Seconds of one check of all guards of an entry, where nothing has changed, for each entry."""
    recompiles: list[Recompile] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """Seconds by stage: ``trace`` (symbolic interpretation), ``code`` (guards and bytecode), ``backend``."""
    given_up: list[str] = field(default_factory=list)
    """Frames that run in eager as a whole, with the reason."""
