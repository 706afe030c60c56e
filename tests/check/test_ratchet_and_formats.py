"""``fullgraph.toml``, and the machine-readable reports."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dynamo_lite.__main__ import main

MODELS = """
import torch


class Gate(torch.nn.Module):
    def forward(self, x):
        y = x.relu()
        if y.sum() > 0:
            y = y + 1
        print("gate")
        return y


def gate():
    return Gate(), (torch.ones(2, 3),)


def whole():
    return torch.nn.Linear(3, 3), (torch.ones(2, 3),)
"""

LISTED = """\
# Graph breaks that `dynamo-lite check` allows. One that is not listed fails; one that is fixed is to be taken out.
# `dynamo-lite check --update TARGET...` writes this file and keeps the reasons.

[[allow]]
target = "gates:gate"
code = "DL0301"
file = "gates.py"
function = "Gate.forward"
line = "if y.sum() > 0:"
reason = "TODO: explain"

[[allow]]
target = "gates:gate"
code = "DL0202"
file = "gates.py"
function = "Gate.forward"
line = "print(\\"gate\\")"
reason = "TODO: explain"
"""


class Folder:
    """A folder with models. The command runs in it."""

    def __init__(self, path: Path, printed: Callable[[], str]) -> None:
        self.path, self._printed = path, printed
        self.write(MODELS)
        self.listed = path / "fullgraph.toml"

    def write(self, models: str) -> None:
        (self.path / "gates.py").write_text(models)

    def check(self, *arguments: str) -> tuple[int, str]:
        sys.modules.pop("gates", None)
        sys.dont_write_bytecode, before = True, sys.dont_write_bytecode  # the file changes within a second
        try:
            status = main(["check", "gates:gate", *arguments])
        finally:
            sys.dont_write_bytecode = before
        return status, self._printed()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Folder]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def printed() -> str:
        out, err = capsys.readouterr()
        return out + "".join(line for line in err.splitlines(True) if line.startswith("dynamo-lite"))

    yield Folder(tmp_path, printed)
    sys.modules.pop("gates", None)


def test_listed_findings_pass(folder):
    assert folder.check()[0] == 1
    assert folder.check("--update")[0] == 0
    assert folder.listed.read_text() == LISTED
    status, printed = folder.check()
    assert status == 0 and "ok   gates:gate: 2 graphs, 2 breaks (2 allowed)" in printed
    folder.write("# a comment, so that lines move\n\n" + MODELS)
    assert folder.check()[0] == 0


def test_a_new_break_fails(folder):
    folder.check("--update")
    folder.write(MODELS.replace("        return y", '        print("new")\n        return y'))
    status, printed = folder.check()
    assert status == 1 and "3 breaks (2 allowed)" in printed and 'print("new")' in printed and "DL0301" not in printed


def test_a_fixed_break_is_to_be_taken_out_and_reasons_are_kept(folder):
    other = '\n[[allow]]\ntarget = "other:one"\ncode = "DL0101"\nfile = "o.py"\nfunction = "f"\nline = "x"\n'
    mine = 'its authors\' "choice": \\ ü'
    folder.listed.write_text(LISTED.replace("TODO: explain", json.dumps(mine)[1:-1], 1) + other)
    folder.write(MODELS.replace('        print("gate")\n', ""))
    status, printed = folder.check()
    assert status == 1
    assert (
        'fixed: fullgraph.toml allows DL0202 in gates.py, Gate.forward, at `print("gate")`, which does not' in printed
    )
    assert folder.check("--update")[0] == 0
    text = folder.listed.read_text()
    assert "DL0202" not in text and json.dumps(mine, ensure_ascii=False) in text and '"other:one"' in text
    assert folder.check()[0] == 0


def test_update_allows_breaks_and_nothing_else(folder):
    folder.write(MODELS.replace("return Gate(), (torch.ones(2, 3),)", "return (lambda x: x), (3,)"))
    assert folder.check("--update")[0] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[allow", "is not valid TOML: "),
        ("[other]", "has tables [[allow]] and nothing else"),
        ('[[allow]]\ncode = "DL0301"', "entry 1 of fullgraph.toml has code, not the strings target, code"),
        (LISTED.replace('"DL0301"', "301"), "entry 1 of fullgraph.toml has"),
    ],
)
def test_a_wrong_file_is_one_sentence(folder, text, words):
    folder.listed.write_text(text)
    status, printed = folder.check()
    assert status == 2 and words in printed and printed.count("\n") == 1


def test_github(folder):
    status, printed = folder.check("gates:whole", "--format", "github")
    assert status == 1
    assert printed.splitlines() == [
        "::error file=gates.py,line=8,title=DL0301 in gates%3Agate::the program branches on a tensor's value, which is "
        "not known while tracing%0AHint: use torch.where (or torch.cond) to choose by data, or branch on shapes and "
        "constants",
        "::error file=gates.py,line=10,title=DL0202 in gates%3Agate::print() has a side effect that can't be captured"
        "%0AHint: move it out of the compiled function, or put it under `if not dl.is_compiling():`",
        "::notice title=gates%3Awhole::gates:whole: 1 graph, 0 breaks, 0 recompiles",
    ]


def test_sarif(folder):
    """The published object model can read the output, too."""
    sarif = pytest.importorskip("sarif_pydantic")
    folder.check("--update")
    folder.write(MODELS.replace("        return y", '        print("new")\n        return y'))
    status, printed = folder.check("--format", "sarif")
    sarif.Sarif.model_validate_json(printed)
    (run,) = json.loads(printed)["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert status == 1 and rules == ["DL0202", "DL0301"]
    new, *allowed = run["results"]
    assert "suppressions" not in new and [each["suppressions"] for each in allowed] == [[{"kind": "external"}]] * 2
    place = new["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "gates.py"}, "region": {"startLine": 11}}
    assert (
        rules[new["ruleIndex"]] == new["ruleId"] == "DL0202" and "print() has a side effect" in new["message"]["text"]
    )


def test_junit(folder):
    junit = pytest.importorskip("junitparser")
    status, printed = folder.check("gates:whole", "--format", "junit")
    (suite,) = junit.JUnitXml.fromstring(printed.encode())
    broken, whole = suite
    assert status == 1 and (suite.tests, suite.failures) == (2, 1)
    assert broken.name == "gates:gate" and broken.result[0].type == "DL0301" and whole.is_passed
    assert "gates.py:8: DL0301" in broken.result[0].text
    assert ElementTree.fromstring(printed.encode()).tag == "testsuites"
