"""What was done so far, in numbers: ``dl.counters``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields


@dataclass
class Counters:
    """Totals over the process since the last `reset`. Times are wall-clock seconds."""

    frames: int = 0
    """Frames translated to the end (resume functions are frames too)."""
    graphs: int = 0
    operators: int = 0
    """Calls in those graphs: nodes other than placeholders, attributes and the output."""
    graph_breaks: int = 0
    recompiles: int = 0
    shared: int = 0
    """Frames that run what another ``dl.compile`` of the same settings has compiled."""
    skips: int = 0
    trace_seconds: float = 0.0
    """Symbolic interpretation and code generation, without the backend."""
    backend_seconds: float = 0.0
    break_reasons: Counter[str] = field(default_factory=Counter)

    def reset(self) -> None:
        """Set everything to zero."""
        fresh = Counters()
        for each in fields(self):
            setattr(self, each.name, getattr(fresh, each.name))


counters = Counters()
