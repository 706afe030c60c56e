"""Source files with the graphs that each line is in, and the graph breaks and skipped frames at each line."""

from __future__ import annotations

import ast
import itertools
import linecache
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dynamo_lite.insight.program_files import is_installed, short_name
from dynamo_lite.insight.recorder import Recorder

MARGIN = 3
"""Lines before and after a line of interest that are shown with it."""
LONGEST_UNFOLDED = 6
"""A stretch of more lines without interest is folded."""


@dataclass(frozen=True)
class Mark:
    """A graph break or a skipped frame at a line. ``kind``: "break" or "skip"."""

    kind: str
    code: str
    what: str
    hint: str
    count: int


@dataclass
class Line:
    number: int
    text: str
    graphs: list[int] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        return not self.graphs and not self.marks


@dataclass(frozen=True)
class Run:
    """Consecutive lines. ``is_folded``: nothing happened in them."""

    lines: list[Line]
    is_folded: bool


@dataclass(frozen=True)
class SourceFile:
    """A file's shown lines. ``has_source``: whether its text was found. ``captured``: the number of lines in graphs."""

    filename: str
    blocks: list[list[Run]]
    """Blocks of shown lines. The lines between two blocks are left out."""
    has_source: bool
    breaks: int
    graphs: int
    captured: int


def source_files(recorder: Recorder) -> list[SourceFile]:
    """The files that have captured lines or marks: the program's own, then those of libraries."""
    graphs: dict[str, dict[int, dict[int, None]]] = {}
    for graph in recorder.graphs:
        for place in {place for node in graph.nodes for place in node.places}:
            lines = graphs.setdefault(place.filename, {})
            for number in range(place.first, place.last + 1):
                lines.setdefault(number, {})[graph.number] = None
    marks = _marks(recorder)
    names = {**graphs, **marks}
    found = [_file(name, graphs.get(name, {}), marks.get(name, {})) for name in names]
    return sorted(found, key=lambda each: (is_installed(each.filename), -each.captured, each.filename))


def _marks(recorder: Recorder) -> dict[str, dict[int, list[Mark]]]:
    """Marks by file and line. Equal marks are merged and counted."""
    counts: Counter[tuple[str, int, str, str, str, str]] = Counter()
    for each in recorder.breaks:
        ended, code, what = each.frames[-1], each.reason.code, each.reason.what()
        counts[ended.filename, ended.lineno or 0, "break", code, what, each.hint] += 1
        if each.place is not ended:  # in a library
            what = f"in {ended.name} ({short_name(ended.filename)}:{ended.lineno}): {what}"
            counts[each.filename, each.lineno, "break", code, what, each.hint] += 1
    for skip in recorder.skips:
        counts[skip.filename, skip.lineno, "skip", "", f"{skip.function} runs in eager: {skip.why}", ""] += 1
    found: dict[str, dict[int, list[Mark]]] = {}
    for (filename, number, kind, code, what, hint), count in counts.items():
        found.setdefault(filename, {}).setdefault(number, []).append(Mark(kind, code, what, hint, count))
    return found


def _file(filename: str, graphs: dict[int, dict[int, None]], marks: dict[int, list[Mark]]) -> SourceFile:
    texts = linecache.getlines(filename)
    numbers = sorted({*graphs, *marks})
    shown = _shown(texts, numbers) if texts else numbers
    text_of = dict(enumerate(texts, 1))
    lines = [Line(at, text_of.get(at, "").rstrip("\n"), sorted(graphs.get(at, ())), marks.get(at, [])) for at in shown]
    breaks = sum(mark.kind == "break" for each in marks.values() for mark in each)
    captured = {graph for each in graphs.values() for graph in each}
    return SourceFile(filename, _blocks(lines), bool(texts), breaks, len(captured), len(graphs))


def _shown(texts: list[str], numbers: Iterable[int]) -> list[int]:
    """The lines of the outermost functions around these lines, and a few around each line outside of functions."""
    functions = _functions("".join(texts))
    shown: set[int] = set()
    for number in numbers:
        around = next((each for each in functions if number in each), range(number - MARGIN, number + MARGIN + 1))
        shown.update(around)
    return sorted(at for at in shown if 1 <= at <= len(texts))


def _functions(text: str) -> list[range]:
    """The lines of each function, outer functions before those inside of them."""
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a notebook's cell with a magic command
        return []
    found: list[range] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            found.append(range(first, (node.end_lineno or node.lineno) + 1))
    return found


def _blocks(lines: list[Line]) -> list[list[Run]]:
    """Blocks of consecutive lines, in which long stretches without interest are folded."""
    near = {line.number + by for line in lines if not line.is_plain for by in range(-MARGIN, MARGIN + 1)}
    found: list[list[Run]] = []
    for _, together in itertools.groupby(enumerate(lines), lambda pair: pair[1].number - pair[0]):
        block = [line for _, line in together]
        for line, text in zip(block, textwrap.dedent("\n".join(line.text for line in block)).split("\n")):
            line.text = text
        found.append([])
        for is_near, group in itertools.groupby(block, lambda line: line.number in near):
            stretch = list(group)
            found[-1].append(Run(stretch, not is_near and len(stretch) > LONGEST_UNFOLDED))
    return found
