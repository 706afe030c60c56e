"""Results as text and as JSON, and all formats by name."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import textwrap
from collections.abc import Callable, Sequence
from typing import TextIO

from .findings import Result
from .machine_formats import as_github, as_junit, as_sarif


def as_text(results: Sequence[Result]) -> str:
    """For people: a line for each target, below it what is wrong."""
    lines = []
    for result in results:
        lines.append(f"{'ok  ' if result.ok else 'FAIL'} {result.summary()}")
        lines += [textwrap.indent(str(each), "     ") for each in result.findings]
    failed = sum(not result.ok for result in results)
    lines.append(f"{len(results) - failed} passed, {failed} failed")
    return "\n".join(lines) + "\n"


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


def write(text: str, stream: TextIO) -> None:
    """Print a text report, in colours where there is a terminal and rich is installed."""
    if not stream.isatty() or importlib.util.find_spec("rich") is None:
        stream.write(text)
        return
    from rich.console import Console

    console = Console(file=stream)
    for line in text.splitlines():
        console.print(line, style=_style(line), markup=False, highlight=False, soft_wrap=True)


def _style(line: str) -> str:
    if line.startswith("ok "):
        return "green"
    if line.startswith("FAIL"):
        return "bold red"
    return "dim" if line.lstrip().startswith("hint: ") else ""
