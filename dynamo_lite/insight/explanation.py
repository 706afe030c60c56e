"""The result of `dl.explain`: the records of one call, and their forms as text and as a dict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from .counters import counted
from .explanation_html import as_html
from .observer import GraphBreak, Observer, folded
from .regions import Regions

R = TypeVar("R")
_OPERATORS_SHOWN, _GUARDS_SHOWN, _ROWS_SHOWN = 6, 12, 8
"""The most lines in the text: operators of each graph; guards; and graphs, breaks or frames that run in eager."""


@dataclass(kw_only=True)
class Explanation(Observer, Generic[R]):
    """What `explain` captured during one call. ``times`` has also ``run``, the rest of the call."""

    result: R
    """What the call returned."""

    break_times: list[int]
    """For each of ``breaks``, which are one for each construct of the program, how often it broke."""

    following: list[list[GraphBreak]]
    """For each of ``breaks`` those that follow from it, on the same line: that the file which ``open`` returned is
    entered, after the break at ``open``."""

    regions: list[Regions | None]
    """For each of ``graphs``, the pieces into which ``regions="auto"`` cuts it. None: it compiles the graph whole."""

    @classmethod
    def of(cls, observer: Observer, result: R, seconds: float, regions: list[Regions | None]) -> Explanation[R]:
        """``seconds``: the time of the whole call."""
        breaks = folded(observer.breaks)
        times, following = [each.times for each in breaks], [each.following for each in breaks]
        made = cls(**vars(observer), result=result, break_times=times, following=following, regions=regions)
        made.breaks = [each.first for each in breaks]
        made.times = observer.times | {"run": seconds - sum(observer.times.values())}
        return made

    @property
    def plan(self) -> str:
        """What the new code of each frame does around its graph: where each value comes from that the program goes on
        with, and which side effects are replayed.

        Example:
            >>> import torch, dynamo_lite as dl
            >>> def double(x, results): results.append(x + x)
            >>> print(dl.explain(double)(torch.zeros(2), []).plan)  # doctest: +ELLIPSIS
            double (...):
              call the graph with x
              results += tuple(result 0 of the graph)
              return None
        """
        return "\n".join(self.plans)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def break_count(self) -> int:
        return len(self.breaks)

    @property
    def operator_count(self) -> int:
        """The number of calls recorded in all graphs."""
        return sum(map(len, self.operators))

    @property
    def operators(self) -> list[list[torch.fx.Node]]:
        """For each graph its calls."""
        return [[node for node in gm.graph.nodes if node.op.startswith("call_")] for gm in self.graphs]

    @property
    def is_whole(self) -> bool:
        """Whether the call was captured as one graph. False if nothing was captured, although nothing broke then."""
        return self.graph_count == 1 and not self.breaks

    def to_dict(self) -> dict[str, Any]:
        """All fields but the result, as values that `json` can write.

        Example:
            >>> import torch, dynamo_lite as dl
            >>> dl.explain(lambda x: x + 1)(torch.zeros(2)).to_dict()["operators"]
            [['add']]
        """
        return {
            "graphs": [gm.code for gm in self.graphs],
            "operators": [[node.name for node in nodes] for nodes in self.operators],
            "regions": [None if each is None else vars(each) for each in self.regions],
            "breaks": [
                {
                    "code": each.reason.code,
                    "reason": each.reason.what(),
                    "hint": each.hint,
                    "times": times,
                    "following": [then.reason.code for then in following],
                    "stack": [{"file": at.filename, "line": at.lineno, "function": at.name} for at in each.frames],
                }
                for each, times, following in zip(self.breaks, self.break_times, self.following)
            ],
            "recompiles": [vars(each) for each in self.recompiles],
            "given_up": self.given_up,
            "guards": self.guards,
            "plans": self.plans,
            "guard_seconds": self.guard_seconds,
            "times": self.times,
            "lookups": self.lookups,
        }

    def __str__(self) -> str:
        return "\n".join((*self._totals(), *self._graphs(), *self._breaks(), *self._guards()))

    def __repr__(self) -> str:
        """What a prompt shows."""
        return str(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return as_html(self, self.operators, self.break_times, self.following)

    def _totals(self) -> list[str]:
        counts = {"graph": self.graph_count, "break": self.break_count, "operator": self.operator_count}
        lines = [", ".join(counted(count, word) for word, count in counts.items())]
        if not self.graphs:
            lines.append("nothing was captured: the call ran in eager")
            lines += _first(self.given_up, _ROWS_SHOWN, "  {}")
        if self.times:
            lines.append(", ".join(f"{stage} {seconds * 1e3:.1f} ms" for stage, seconds in self.times.items()))
        return lines

    def _graphs(self) -> list[str]:
        rows = []
        for at, (nodes, regions) in enumerate(zip(self.operators, self.regions), 1):
            operators = _first([str(node.format_node()) for node in nodes], _OPERATORS_SHOWN, "  {}")
            cut = "" if regions is None else f"; with regions='auto' in {regions}"
            rows.append("\n".join([f"graph {at}: {counted(len(nodes), 'operator')}{cut}", *operators]))
        return _first(rows, _ROWS_SHOWN)

    def _breaks(self) -> list[str]:
        rows = []
        for each, times, following in zip(self.breaks, self.break_times, self.following):
            again = "" if times == 1 else f" ({times} times)"
            row = [f"break {each.reason.code} at {each.at()}: {each.reason.what()}{again}", f"  hint: {each.hint}"]
            row += [f"  from this follows {then.reason.code}: {then.reason.what()}" for then in following]
            rows.append("\n".join(row))
        return _first(rows, _ROWS_SHOWN) + _first([str(each) for each in self.recompiles], _ROWS_SHOWN, "recompile: {}")

    def _guards(self) -> list[str]:
        if not self.guards:
            return []
        took = f", checked in {sum(self.lookups) * 1e6:.2f} us" if self.lookups else ""
        rows = [f"{guard} ({each * 1e9:.0f} ns)" for guard, each in zip(self.guards, self.guard_seconds)] or self.guards
        return [f"{counted(len(self.guards), 'guard')}{took}:", *_first(rows, _GUARDS_SHOWN, "  {}")]


def _first(rows: list[str], most: int, form: str = "{}") -> list[str]:
    """The first ``most`` rows, and a line with the number of the others."""
    shown = [form.format(each) for each in rows[:most]]
    return shown + ([form.format(f"… {len(rows) - most} more")] if len(rows) > most else [])
