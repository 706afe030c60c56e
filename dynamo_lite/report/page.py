"""Renders the records as a page in HTML: the contents of each section for the template ``page.html``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dynamo_lite.insight.break_pages import reasons
from dynamo_lite.insight.counters import counted
from dynamo_lite.insight.observer import folded
from dynamo_lite.insight.page_addresses import code_page
from dynamo_lite.insight.program_files import short_name
from dynamo_lite.insight.recorder import EntryRecord, GraphRecord, Recorder

from .costs import causes
from .drawing import draw
from .guard_rows import tree_of
from .source_lines import source_files
from .stacks import stacks_of
from .summary import duration
from .texts import code_pages, code_styles, coloured, sentence
from .timeline import charts, totals

SHOWN = 25
"""The first items of a long list are shown, this many. The others are collapsed in groups of this size."""


@dataclass(frozen=True)
class Card:
    """A graph and the code that calls it. ``entry``: None if the backend failed or the frame ran once."""

    graph: GraphRecord | None
    entry: EntryRecord | None
    title: str
    place: str

    @property
    def compile_seconds(self) -> float:
        return 0.0 if self.entry is None else sum(self.entry.seconds.values())

    @property
    def guard_seconds(self) -> float:
        return 0.0 if self.entry is None else self.entry.check_seconds * (self.entry.hits or 0)

    @property
    def run_seconds(self) -> float:
        return 0.0 if self.graph is None else self.graph.run_seconds

    @property
    def seconds(self) -> float:
        return self.compile_seconds + self.guard_seconds + self.run_seconds

    @property
    def call_seconds(self) -> float:
        """The average of a call: guards and graph."""
        calls = 0 if self.graph is None else self.graph.runs
        return (self.guard_seconds + self.run_seconds) / calls if calls else 0.0


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
    filters = (duration, hue, counted, draw, tree_of, coloured, sentence)
    environment.filters |= {"file": short_name, **{each.__name__: each for each in filters}}
    return environment.get_template("page.html").render(_contents(recorder, program))


def _contents(recorder: Recorder, program: str) -> dict[str, object]:
    """The variables of the template."""
    of_graph = {entry.graph: entry for entry in recorder.entries if entry.graph is not None}
    files, ranked = source_files(recorder), causes(recorder)
    cards = [_card(graph, of_graph.get(graph.number)) for graph in recorder.graphs]
    return {
        "program": program,
        "recorder": recorder,
        "files": files,
        "shown_lines": {
            (each.filename, line.number): at
            for at, each in enumerate(files)
            for block in each.blocks
            for run in block
            for line in run.lines
        },
        "causes": ranked,
        "break_count": len(folded(recorder.breaks)),
        "largest_cause": max((each.seconds for each in ranked), default=0.0) or 1.0,
        "largest_graph": max((each.seconds for each in cards), default=0.0) or 1.0,
        "cards": sorted(cards, key=lambda each: -each.seconds),
        "without_graph": [_card(None, entry) for entry in recorder.entries if entry.graph is None],
        "stacks": stacks_of(recorder.entries),
        "charts": charts(recorder),
        "totals": totals(recorder),
        "code_pages": code_pages(recorder),
        "code_styles": code_styles(),
        "code_page": code_page,
        "titles": {each.code: each.title for each in reasons()},
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
    return f"{short_name(filename)}:{lines}"


def hue(graph: int) -> int:
    """The hue of a graph's colour. Steps of the golden angle keep successive graphs apart."""
    return round(graph * 137.508 + 210) % 360
