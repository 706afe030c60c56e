"""Results for machines that show them: annotations of GitHub's, SARIF 2.1.0, and JUnit's XML."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from dynamo_lite.insight import break_pages
from dynamo_lite.insight.page_addresses import code_page

from .findings import SUMMARIES, Finding, Result


def as_github(results: Sequence[Result]) -> str:
    """A workflow command for each finding, which GitHub shows at its line."""
    lines = []
    for result in results:
        for each in result.findings:
            at = each.place
            place = {} if at is None else {"file": _in_repository(at.file), "line": str(at.line)}
            given = {**place, "title": f"{each.code} in {result.target}"}
            listed = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in given.items())
            lines.append(f"::error {listed}::{_escaped(each.message)}%0AHint: {_escaped(each.hint)}")
        if result.ok:
            lines.append(f"::notice title={_escaped(result.target, ':,')}::{_escaped(result.summary())}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str, also: str = "") -> str:
    for character in "%\r\n" + also:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def as_sarif(results: Sequence[Result]) -> str:
    """One run, with a rule for each code that was found. Breaks that are allowed are suppressed results."""
    found = [(result, each, False) for result in results for each in result.findings]
    found += [(result, each, True) for result in results for each in result.allowed]
    codes = sorted({each.code for _, each, _ in found})
    reasons = {each.code: each for each in break_pages.reasons()}
    driver = {"name": "dynamo-lite check", "rules": [_rule(code, reasons.get(code)) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(*each, codes) for each in found],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str, reason: break_pages.Reason | None) -> dict[str, Any]:
    """A rule has its whole page. A link to the page is only an address that holds on every machine."""
    what = SUMMARIES[code] if reason is None else break_pages.with_named_fields(reason.happened)
    rule: dict[str, Any] = {"id": code, "shortDescription": {"text": what}}
    if reason is not None:
        rule["name"] = reason.name
        rule["help"] = {"text": break_pages.with_named_fields(reason.fix), "markdown": break_pages.page(reason)}
        address = code_page(code)
        if address is not None:
            rule["helpUri"] = address
    return rule


def _sarif_result(result: Result, found: Finding, is_allowed: bool, codes: Sequence[str]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "ruleId": found.code,
        "ruleIndex": codes.index(found.code),
        "level": "error",
        "message": {"text": f"{result.target}: {found.message}\nHint: {found.hint}"},
    }
    if found.place is not None:
        place = found.place
        region = {"startLine": max(place.line, 1)}
        made["locations"] = [
            {
                "physicalLocation": {"artifactLocation": {"uri": _uri(place.file)}, "region": region},
                "logicalLocations": [{"fullyQualifiedName": place.function, "kind": "function"}],
            }
        ]
        made["partialFingerprints"] = {"place/v1": f"{result.target} {found.code} {place.function} {place.text}"}
    if is_allowed:
        made["suppressions"] = [{"kind": "external"}]
    return made


def _in_repository(file: str) -> str:
    """A path as GitHub takes it, from the top of the checkout: a workflow may have another working directory."""
    checkout = os.environ.get("GITHUB_WORKSPACE")
    path = Path(file).absolute()
    return path.relative_to(checkout).as_posix() if checkout and path.is_relative_to(checkout) else file


def _uri(file: str) -> str:
    file = _in_repository(file)
    quoted = quote(file, errors="surrogateescape")  # as the bytes that the file system has
    return f"file://{quoted}" if file.startswith("/") else quoted


def as_junit(results: Sequence[Result]) -> str:
    """A test case for each target, which fails with what was found."""
    failed = sum(not result.ok for result in results)
    counts = {"tests": str(len(results)), "failures": str(failed), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "dynamo-lite check", **counts})
    root.set("time", _seconds(sum(result.seconds for result in results)))
    suite = ElementTree.SubElement(root, "testsuite", {"name": "fullgraph", **counts, "skipped": "0"})
    suite.set("time", root.get("time", ""))
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", classname="fullgraph", name=_printable(result.target))
        case.set("time", _seconds(result.seconds))
        if not result.ok:
            first = result.findings[0]
            failure = ElementTree.SubElement(case, "failure", type=first.code, message=_printable(first.message))
            failure.text = _printable("\n".join(map(str, result.findings)))
        ElementTree.SubElement(case, "system-out").text = _printable(result.summary())
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"


_NOT_IN_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _printable(text: str) -> str:
    """With the characters that XML has no way to write escaped as Python does: control characters, surrogates."""
    return _NOT_IN_XML.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
