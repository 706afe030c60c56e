"""``fullgraph.toml``: the graph breaks that are allowed, each with a reason. The list may only get shorter.

A break is known by its target, its code, and its place: file, function and the text of the line, which survive that
lines are added above it. A break that isn't listed is a finding, and so is an entry whose break has gone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .findings import BACKEND_FAILED, FIXED, NOTHING_CAPTURED, TARGET_FAILED, Finding, Place, Result
from .targets import BadTarget

NAME = "fullgraph.toml"
_NO_REASON = "TODO: explain"
_HEADER = """\
# Graph breaks that `dynamo-lite check` allows. One that is not listed fails; one that is fixed is to be taken out.
# `dynamo-lite check --update TARGET...` writes this file and keeps the reasons.
"""


@dataclass(frozen=True)
class Allowed:
    """One allowed graph break. Comparisons ignore the reason."""

    target: str
    code: str
    file: str
    function: str
    line: str
    """Its text, without the space around it."""
    reason: str = field(default=_NO_REASON, compare=False)

    @classmethod
    def of(cls, target: str, found: Finding) -> Allowed:
        place = found.place or Place("", 0, "", "")
        return cls(target, found.code, place.file, place.function, place.text)


class Ratchet:
    """What a file allows. ``path`` need not exist: then nothing is allowed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries = _read(path) if path.exists() else []

    def allows(self, target: str, found: Finding) -> bool:
        """Whether a break of a target is listed."""
        return Allowed.of(target, found) in self.entries

    def note_fixed(self, result: Result) -> None:
        """Add a finding for each listed break of the target that has gone."""
        if any(each.code in (BACKEND_FAILED, NOTHING_CAPTURED, TARGET_FAILED) for each in result.findings):
            return  # the target may have failed before it reached the break
        there = {Allowed.of(result.target, each) for each in _breaks(result)}
        for entry in self.entries:
            if entry.target == result.target and entry not in there:
                what = f"{self.path.name} allows {entry.code} in {entry.file}, {entry.function}, at `{entry.line}`"
                hint = "take the entry out, or let --update do so, that it can't come back"
                result.findings.append(Finding(FIXED, f"{what}, which does not break any more", hint))

    def update(self, results: Sequence[Result]) -> None:
        """Rewrite the file: what there is now for these targets, with the reasons that were given; of other targets
        what was listed. The results then have findings only of what no file can allow."""
        checked = {result.target for result in results if result.could_be_checked}
        listed = {each: each for each in self.entries}  # an entry without a reason -> the equal one that has it
        kept = [each for each in self.entries if each.target not in checked]
        for result in results:
            now = dict.fromkeys(Allowed.of(result.target, each) for each in _breaks(result))
            kept += [listed.get(each, each) for each in now]
            result.allowed += [each for each in result.findings if _is_break(each)]
            result.findings = [each for each in result.findings if not _is_break(each) and each.code != FIXED]
        try:
            self.path.write_text(_HEADER + "".join(map(_written, kept)), encoding="utf-8")
        except OSError as error:
            raise BadTarget(f"{self.path} can't be written: {error.strerror}") from error


def _is_break(found: Finding) -> bool:
    return found.code.startswith("DL")


def _breaks(result: Result) -> list[Finding]:
    return [each for each in (*result.findings, *result.allowed) if _is_break(each)]


_FIELDS = ("target", "code", "file", "function", "line", "reason")


def _read(path: Path) -> list[Allowed]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadTarget(f"{path} can't be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadTarget(f"{path} is not valid TOML: {error}") from error
    entries = found.pop("allow", [])
    if found or not isinstance(entries, list):
        raise BadTarget(f"{path} has tables [[allow]] and nothing else")
    for at, each in enumerate(entries, 1):
        wanted = _FIELDS if "reason" in each else _FIELDS[:-1]
        if {*each} != {*wanted} or not all(isinstance(value, str) for value in each.values()):
            raise BadTarget(f"entry {at} of {path} has {', '.join(each)}, not the strings {', '.join(_FIELDS)}")
    return [Allowed(**each) for each in entries]


def _written(entry: Allowed) -> str:
    lines = [f"{name} = {json.dumps(getattr(entry, name), ensure_ascii=False)}" for name in _FIELDS]
    return "\n[[allow]]\n" + "\n".join(lines) + "\n"
