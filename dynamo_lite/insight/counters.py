"""``dl.counters``: totals of translations, graphs, breaks and times; and the text of a count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dynamo_lite import _C

from .observer import Constructs, GraphBreak
from .program_files import line_place


class _Waits:
    """A total that the hook keeps, as most frames wait without a callback."""

    def __get__(self, counters: Counters | None, owner: type) -> int:
        return 0 if counters is None else _C.waits() - vars(counters)["_waits_before"]

    def __set__(self, counters: Counters, value: int) -> None:
        vars(counters)["_waits_before"] = _C.waits() - value


@dataclass
class Counters:
    """Totals of the process since the last `reset`.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> dl.counters.reset()
        >>> y = dl.compile(lambda x: x + 1, backend="eager")(torch.zeros(2))
        >>> dl.counters.graphs, dl.counters.operators, dl.counters.graph_breaks
        (1, 1, 0)
    """

    frames: int = 0
    """Frames whose translation succeeded, those of resume functions included."""
    graphs: int = 0
    """Graphs that were compiled by a backend."""
    operators: int = 0
    """Calls in these graphs: nodes other than placeholders, attributes and the output."""
    graph_breaks: int = 0
    """Constructs of the program that broke a graph. One that breaks again (in the next iteration of a loop, in another
    version of its function, in a callee's own translation) is counted once, as in `Explanation.breaks`."""
    broken_translations: int = 0
    """Translations that ended in a graph break."""
    recompiles: int = 0
    """Frames that were translated again because no guards held."""
    outdated: int = 0
    """Translations that were dropped: a value that they guard had changed when they were finished."""
    shared: int = 0
    """Frames that run code compiled by another ``dl.compile`` with the same settings."""
    skips: int = 0
    """Frames that run in eager from now on."""
    internal_errors: int = 0
    """Frames that run in eager because translating them failed by a bug of dynamo_lite (`config.internal_errors`)."""
    waits: _Waits = _Waits()
    """Frames under ``dl.enable`` that run in eager until translating them pays (`config.enable_allowance`)."""
    trace_seconds: float = 0.0
    """Wall-clock time of symbolic interpretation and code generation, in seconds, without the backend."""
    backend_seconds: float = 0.0
    """Wall-clock time of the backend, in seconds."""
    break_reasons: Counter[str] = field(default_factory=Counter)
    """What happened, as text -> number of translations that it ended."""
    break_places: Counter[str] = field(default_factory=Counter)
    """Code, place and what happened, as text -> number of translations that it ended."""
    _constructs: Constructs = field(default_factory=Constructs, repr=False)
    """Those that ``graph_breaks`` has counted."""

    def reset(self) -> None:
        """Set everything to zero."""
        vars(self).update(vars(Counters()))

    def count_break(self, graph_break: GraphBreak) -> None:
        """Count a translation that ended there."""
        reason = graph_break.reason
        self.graph_breaks += self._constructs.is_new(graph_break)
        self.broken_translations += 1
        self.break_reasons[reason.what()] += 1
        place = line_place(graph_break.filename, graph_break.lineno)
        self.break_places[f"{reason.code} at {place}: {reason.what()}"] += 1

    def forget_constructs(self) -> None:
        """Count each construct again at its next break."""
        self._constructs = Constructs()


counters = Counters()


def counted(number: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
