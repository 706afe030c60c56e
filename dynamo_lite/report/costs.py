"""Ranks what was compiled by what it cost, under what caused it: a function's first call, a break, a recompilation.

Each entry belongs to one cause, so that the costs of all causes add up to that of the program.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from dynamo_lite.insight.observer import GraphBreak, of_one_cause
from dynamo_lite.insight.recorder import EntryRecord, GraphRecord, RecompileRecord, Recorder


@dataclass
class Cause:
    """Why entries were compiled. ``kind``: "first", "break" or "recompile"."""

    kind: str
    title: str
    filename: str
    lineno: int
    code: str = ""
    hint: str = ""
    breaks: list[GraphBreak] = field(default_factory=list)
    """The root, once for each time it was met, then the breaks that follow from it."""
    changes: list[RecompileRecord] = field(default_factory=list)
    """Those of the root, and those of what continues after it."""
    entries: list[EntryRecord] = field(default_factory=list)
    graphs: list[GraphRecord] = field(default_factory=list)

    @property
    def compile_seconds(self) -> float:
        return sum(sum(each.seconds.values()) for each in self.entries)

    @property
    def calls(self) -> int:
        """Calls that ran one of its entries."""
        return max(sum(each.hits or 0 for each in self.entries), sum(each.runs for each in self.graphs))

    @property
    def guard_seconds(self) -> float:
        return sum(each.check_seconds * (each.hits or 0) for each in self.entries)

    @property
    def run_seconds(self) -> float:
        return sum(each.run_seconds for each in self.graphs)

    @property
    def seconds(self) -> float:
        return self.compile_seconds + self.guard_seconds + self.run_seconds

    @property
    def call_seconds(self) -> float:
        """The average of a call: guards and graph."""
        return (self.guard_seconds + self.run_seconds) / self.calls if self.calls else 0.0

    @property
    def times(self) -> int:
        """How often the break was met, or the function compiled again."""
        if self.kind == "break":
            return of_one_cause(self.breaks).times
        return sum(each.subject == self.title for each in self.changes) or 1

    @property
    def follows(self) -> list[GraphBreak]:
        """The breaks that follow from the root, one for each construct."""
        return of_one_cause(self.breaks).following if self.breaks else []


def causes(recorder: Recorder) -> list[Cause]:
    """All causes, the most expensive first."""
    found: dict[Hashable, Cause] = {}
    for each in recorder.breaks:
        _cause_of_break(found, each).breaks.append(each)
    graphs = {each.number: each for each in recorder.graphs}
    ended: dict[int, Cause] = {}  # the identity of a break -> the recompilation whose entry it ended
    claimed: set[int] = set()
    for entry in recorder.entries:
        cause = _cause_of_entry(found, entry, ended)
        cause.entries.append(entry)
        if entry.graph is not None:
            cause.graphs.append(graphs.pop(entry.graph))
        if entry.recompile is not None:
            claimed.add(id(entry.recompile))
            cause.changes.append(entry.recompile)
        if entry.ended_by is not None and cause.kind == "recompile":
            ended[id(entry.ended_by)] = cause
    for record in recorder.recompiles:
        if id(record) not in claimed:  # it made no entry
            _cause_of_recompile(found, record).changes.append(record)
    return sorted(found.values(), key=lambda each: -each.seconds)


def _cause_of_entry(found: dict[Hashable, Cause], entry: EntryRecord, ended: dict[int, Cause]) -> Cause:
    """What follows an entry that was compiled again belongs to that recompilation, the first time."""
    above = ended.pop(id(entry.continues), None)
    if above is not None:
        return above
    if entry.recompile is not None:
        return _cause_of_recompile(found, entry.recompile)
    if entry.continues is not None:
        return _cause_of_break(found, entry.continues)
    key = ("first", entry.function, entry.filename, entry.lineno)
    return found.setdefault(key, Cause("first", entry.function, entry.filename, entry.lineno))


def _cause_of_break(found: dict[Hashable, Cause], each: GraphBreak) -> Cause:
    """Breaks at one line of the program are one cause: the first is the root."""
    made = Cause("break", each.reason.what(), each.filename, each.lineno, each.reason.code, each.hint)
    return found.setdefault(("break", each.filename, each.lineno), made)


def _cause_of_recompile(found: dict[Hashable, Cause], each: RecompileRecord) -> Cause:
    made = Cause("recompile", each.subject, each.filename, each.lineno, hint=each.hint)
    return found.setdefault(("recompile", each.function, each.filename, each.lineno, each.subject), made)
