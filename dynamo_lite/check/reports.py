"""Results as text and as JSON, and all formats by name."""

from __future__ import annotations

import dataclasses
import json
import os
import textwrap
from collections.abc import Callable, Sequence
from typing import TextIO

from .findings import Result
from .machine_formats import as_github, as_junit, as_sarif


def as_text(results: Sequence[Result]) -> str:
    """For people: a line for each target, below it what is wrong."""
    return "".join(map(text_of, results)) + last_line(results)


def text_of(result: Result) -> str:
    """A target's line, and what is wrong."""
    lines = [f"{'ok  ' if result.ok else 'FAIL'} {result.summary()}"]
    lines += [textwrap.indent(str(each), "     ") for each in result.findings]
    return "\n".join(lines) + "\n"


def last_line(results: Sequence[Result]) -> str:
    """How many passed and failed."""
    failed = sum(not result.ok for result in results)
    return f"{len(results) - failed} passed, {failed} failed\n"


def as_json(results: Sequence[Result]) -> str:
    """All of it, for programs: a list of targets, each with its counts, findings and what is allowed."""
    targets = [{"target": each.target, "ok": each.ok, **dataclasses.asdict(each)} for each in results]
    return json.dumps({"ok": all(result.ok for result in results), "targets": targets}, indent=2) + "\n"


FORMATS: dict[str, Callable[[Sequence[Result]], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
    "junit": as_junit,
}


def write(text: str, stream: TextIO, is_coloured: bool | None = None) -> None:
    """Print a report at once. What the stream's encoding has no way to write is escaped.

    Args:
        is_coloured: whether lines have colours; None: as the terminal, FORCE_COLOR and NO_COLOR say.
    """
    encoding = getattr(stream, "encoding", None) or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    if has_colours(stream) if is_coloured is None else is_coloured:
        text = "".join(map(_coloured, text.splitlines(keepends=True)))
    stream.write(text)
    stream.flush()


def has_colours(stream: TextIO) -> bool:
    """By https://no-color.org and https://force-color.org, else whether it is a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty() and os.environ.get("TERM") != "dumb"


_COLOURS = {"ok ": "32", "FAIL": "1;31", "hint: ": "2"}
"""Green, bold red, dim: by what a line begins with."""


def _coloured(line: str) -> str:
    words = line.lstrip()
    colour = next((colour for beginning, colour in _COLOURS.items() if words.startswith(beginning)), None)
    return line if colour is None else f"\x1b[{colour}m{line.rstrip()}\x1b[0m\n"
