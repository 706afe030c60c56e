"""Renders the records as a page in HTML: the contents of each section for the template ``page.html``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dynamo_lite.insight.counters import counted
from dynamo_lite.insight.recorder import EntryRecord, GraphRecord, RecompileRecord, Recorder

from .drawing import draw
from .guard_rows import tree_of
from .source_lines import counted_breaks, source_files
from .timeline import rows

SHOWN = 25
"""The first items of a long list are shown, this many. The others are collapsed in groups of this size."""


@dataclass(frozen=True)
class Card:
    """A graph and the code that calls it. ``entry``: None if the backend failed or the frame ran once."""

    graph: GraphRecord | None
    entry: EntryRecord | None
    title: str
    place: str


def as_page(recorder: Recorder, program: str) -> str:
    """The page as HTML."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    filters = (duration, hue, counted, draw, tree_of)
    environment.filters |= {"file": os.path.basename, **{each.__name__: each for each in filters}}
    return environment.get_template("page.html").render(_contents(recorder, program))


def _contents(recorder: Recorder, program: str) -> dict[str, object]:
    """The variables of the template."""
    of_graph = {entry.graph: entry for entry in recorder.entries if entry.graph is not None}
    files = source_files(recorder)
    return {
        "program": program,
        "recorder": recorder,
        "files": files,
        "file_numbers": {each.filename: at for at, each in enumerate(files)},
        "breaks": counted_breaks(recorder),
        "cards": [_card(graph, of_graph.get(graph.number)) for graph in recorder.graphs],
        "without_graph": [_card(None, entry) for entry in recorder.entries if entry.graph is None],
        "histories": _histories(recorder.recompiles),
        "rows": rows(recorder),
        "shown": SHOWN,
    }


def _card(graph: GraphRecord | None, entry: EntryRecord | None) -> Card:
    title, place = ("a frame", "") if entry is None else (entry.function, _place(entry.filename, entry.lineno))
    own = [] if graph is None else [node.places for node in graph.nodes if node.places]
    if own:  # the program's outermost function; the entry's may be a caller in torch, such as Module.__call__
        outermost = own[0][0]
        numbers = [each.first for places in own for each in places[:1] if each.filename == outermost.filename]
        title, place = outermost.function, _place(outermost.filename, min(numbers), max(numbers))
    if entry is not None and entry.is_rest:
        title = f"{title}, continued"
    return Card(graph, entry, title, place)


def _place(filename: str, first: int, last: int = 0) -> str:
    lines = f"{first}–{last}" if last > first else f"{first}"
    return f"{os.path.basename(filename)}:{lines}"


def _histories(recompiles: list[RecompileRecord]) -> list[list[RecompileRecord]]:
    """The recompilations of each function, in order."""
    functions: dict[tuple[str, str, int], list[RecompileRecord]] = {}
    for each in recompiles:
        functions.setdefault((each.function, each.filename, each.lineno), []).append(each)
    return list(functions.values())


def duration(seconds: float) -> str:
    """Seconds as text, in the unit that reads best."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}" if seconds < 100 * unit else f"{seconds / unit:.0f} {name}"
    return f"{seconds * 1e9:.0f} ns"


def hue(graph: int) -> int:
    """The hue of a graph's colour. Steps of the golden angle keep successive graphs apart."""
    return round(graph * 137.508 + 210) % 360
