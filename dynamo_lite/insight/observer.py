"""What `dl.explain` reports: the graphs, graph breaks and guards of what was compiled while it watched."""

from __future__ import annotations

from dataclasses import dataclass, field
from traceback import FrameSummary
from typing import TYPE_CHECKING

from .break_reason import BreakReason

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
    def filename(self) -> str:
        return self.user_stack[-1].filename

    @property
    def lineno(self) -> int:
        return self.user_stack[-1].lineno or 0


@dataclass
class Observer:
    """Gathers what is compiled, for ``dl.explain``."""

    graphs: list[GraphModule] = field(default_factory=list)
    breaks: list[GraphBreak] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)
    """The function, and which guards failed before it was translated again."""
    left_alone: list[BreakReason] = field(default_factory=list)
    """Why frames ran in eager that are captured elsewhere."""
