"""The numbers of a report as JSON (``report.json``), and what differs between two of them."""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from dynamo_lite.insight.observer import folded
from dynamo_lite.insight.recorder import Recorder
from dynamo_lite.runtime.version import __version__

from .costs import Cause, causes
from .timeline import totals

NAME = "report.json"
_FORMAT = 1
_SAME = 0.1
"""Seconds that differ by less than this share are noise."""

Summary = dict[str, Any]
"""As `summary` makes it."""


def summary(recorder: Recorder, program: str) -> Summary:
    """Totals and causes, as values that `json` can write."""
    ranked = causes(recorder)
    hits = sum(entry.hits or 0 for entry in recorder.entries)
    guards = sum(entry.check_seconds * (entry.hits or 0) for entry in recorder.entries)
    return {
        "format": _FORMAT,
        "program": program,
        "versions": {"dynamo_lite": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "totals": {
            "graphs": len(recorder.graphs),
            "operators": sum(graph.operators for graph in recorder.graphs),
            "graph breaks": len(folded(recorder.breaks)),
            "functions in eager": len(recorder.skips),
            "recompilations": len(recorder.recompiles),
        },
        "seconds": {**totals(recorder), "guards of a call": guards / hits if hits else 0.0},
        "causes": [_as_dict(each) for each in ranked],
    }


def _as_dict(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind,
        "code": cause.code,
        "function": cause.changes[0].function if cause.changes else cause.entries[0].function if cause.entries else "",
        "what": cause.title,
        "file": os.path.basename(cause.filename),
        "line": cause.lineno,
        "hint": cause.hint,
        "times": cause.times,
        "compile_seconds": cause.compile_seconds,
        "call_seconds": cause.call_seconds,
        "calls": cause.calls,
        "graphs": [graph.number for graph in cause.graphs],
    }


def read(path: str) -> Summary:
    """The summary in a report's folder, or in the file itself.

    Raises:
        ValueError: there is none.
    """
    file = Path(path)
    if file.is_dir():
        file = file / NAME
    try:
        found: object = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{file} can't be read ({error.strerror}): name the folder of a report") from error
    except ValueError as error:
        raise ValueError(f"{file} is not the {NAME} of a report") from error
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError(f"{file} is not the {NAME} of a report of this version")
    return found


def difference(before: Summary, after: Summary) -> str:
    """Two summaries beside each other, in Markdown that is readable as text."""
    return "\n".join([*_table(_totals(before, after)), *_changed_causes(before, after)]) + "\n"


def _totals(before: Summary, after: Summary) -> Iterator[tuple[str, str, str, str]]:
    yield "", "before", "after", "change"
    for name, old in before["totals"].items():
        new = after["totals"].get(name, 0)
        yield name, str(old), str(new), "" if new == old else f"{new - old:+d}"
    for name, old in before["seconds"].items():
        new = after["seconds"].get(name, 0.0)
        yield name, duration(old), duration(new), _change(old, new)


def _change(old: float, new: float) -> str:
    if not old or abs(new - old) <= _SAME * old:
        return ""
    return f"{100 * (new - old) / old:+.0f} %"


def _table(rows: Iterator[tuple[str, ...]]) -> list[str]:
    lines = [*rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = [
        "| "
        + " | ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(pairs))
        + " |"
        for pairs in (list(zip(line, widths)) for line in lines)
    ]
    rule = "|" + "|".join("-" * (width + 2 - bool(at)) + ":" * bool(at) for at, width in enumerate(widths)) + "|"
    return [texts[0], rule, *texts[1:]]


_HEADINGS = {"break": "breaks", "recompile": "recompilations"}


def _changed_causes(before: Summary, after: Summary) -> Iterator[str]:
    for kind, plural in _HEADINGS.items():
        old, new = _by_key(before, kind), _by_key(after, kind)
        for title, found in ((f"New {plural}", new - old), (f"{plural.capitalize()} that are gone", old - new)):
            whose = after if title.startswith("New") else before
            if found:
                yield from ("", f"**{title}**", "")
                for key, count in found.items():
                    cause = _cause_of(whose, kind, key)
                    yield _line(cause, count) + (f". Hint: {cause['hint']}" if whose is after else "")
    if _by_key(before, "break") == _by_key(after, "break") and _by_key(before, "recompile") == _by_key(
        after, "recompile"
    ):
        yield from ("", "The same breaks and recompilations.")


_Key = tuple[str, ...]


def _key(cause: dict[str, Any]) -> _Key:
    """What a cause is, wherever it now stands in its file."""
    return cause["code"], cause["function"], cause["file"], re.sub(r"\d+", "", cause["what"])


def _by_key(whose: Summary, kind: str) -> Counter[_Key]:
    return Counter(_key(each) for each in whose["causes"] if each["kind"] == kind)


def _cause_of(whose: Summary, kind: str, key: _Key) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in whose["causes"] if each["kind"] == kind and _key(each) == key)
    return found


def _line(cause: dict[str, Any], count: int) -> str:
    code = f"{cause['code']} " if cause["code"] else f"{cause['function']}: "
    again = f" ({count} places)" if count > 1 else ""
    costs = f"{duration(cause['compile_seconds'])} to compile, {duration(cause['call_seconds'])} a call"
    return f"- {code}{cause['what']}{again}, {cause['file']}:{cause['line']}: {costs}"


def duration(seconds: float) -> str:
    """Seconds as text, in the unit that reads best."""
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}" if seconds < 100 * unit else f"{seconds / unit:.0f} {name}"
    return f"{seconds * 1e9:.0f} ns" if seconds else "0"
