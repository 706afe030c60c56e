"""``dynamo-lite check``: arguments, findings, exit statuses."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.__main__ import main
from dynamo_lite.check import reports
from processes import run_program

MODELS = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.inner(x).relu()
        if y.sum() > 0:
            y = y + 1
        return y


def broken():
    return Net(), (torch.ones(2, 3),)


def one():
    return torch.nn.Linear(3, 3), (torch.ones(2, 3),)


def named():
    return (lambda x, *, by: x * by), (torch.ones(3),), {"by": 2}


def sizes():
    return torch.nn.Linear(3, 3), [(torch.ones(n, 3),) for n in (2, 3, 4)]


def endless():
    for n in range(2, 5):
        yield (torch.ones(n, 3),)


def iterated():
    return torch.nn.Linear(3, 3), endless()


def plain():
    return (lambda x: x), (3,)


def no_gradients():
    return (lambda x: x + 1), (torch.ones(3),)


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        if self.training:
            print("training")
        return self.weight * x


trained = Trained().eval()


def trains():
    return trained, (torch.ones(3),)


def fails():
    raise KeyError("nothing here")


def fails_when_called():
    return torch.nn.Linear(3, 3), (torch.ones(7),)


def nothing():
    return 3


def no_tuple():
    return torch.nn.Linear(3, 3), torch.ones(2, 3)


def no_tuples():
    return torch.nn.Linear(3, 3), [torch.ones(2, 3)]


def no_inputs():
    return torch.nn.Linear(3, 3), []


def under_mode():
    return (lambda x: x + 1), counting()


def counting():
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False):
        yield (torch.ones(3),)


class Loud(torch.nn.Module):
    def forward(self, x):
        print("hello")
        return x * 2


def loud():
    return Loud(), (torch.ones(3),)


VALUE = 3
"""

SCRIPT = """
import sys
import torch
import dynamo_lite as dl

print("the script has", sys.argv[1:])


@dl.compile(backend="eager", fullgraph=True)
def whole(x):
    return x + 1


@dl.compile(backend="eager")
def broken(x):
    y = x * 2
    print("between")
    return y * 2


@dl.compile(backend="eager")
def never_called(x):
    print(x)


if __name__ == "__main__":
    whole(torch.ones(2))
    broken(torch.ones(2))
"""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs ``check("nets:one", "--train")`` in a folder with these files. Returns the status, the output and the
    complaints.
    """
    (tmp_path / "nets.py").write_text(MODELS)
    (tmp_path / "script.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "nets", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = main(["check", *arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    yield run
    sys.modules.pop("nets", None)


@pytest.mark.parametrize("target", ["one", "named"])
def test_one_graph_passes(check, target):
    assert check(f"nets:{target}") == (
        0,
        f"ok   nets:{target}: 1 graph, 0 breaks, 0 recompiles\n1 passed, 0 failed\n",
        "",
    )


def test_a_break_is_listed(check):
    status, printed, complained = check("nets:one", "nets:broken")
    assert (status, complained) == (1, "")
    assert (
        printed
        == """\
ok   nets:one: 1 graph, 0 breaks, 0 recompiles
FAIL nets:broken: 2 graphs, 1 break, 0 recompiles
     nets.py:12: DL0301 the program branches on a tensor's value, which is not known while tracing
         if y.sum() > 0:
       hint: use torch.where (or torch.cond) to choose by data, or branch on shapes and constants
1 passed, 1 failed
"""
    )


def test_more_graphs_may_be_allowed(check):
    assert check("nets:broken", "--max-graphs", "1")[0] == 1
    status, printed, _ = check("nets:broken", "--max-graphs", "2")
    assert status == 0 and "2 graphs, 1 break (1 allowed)" in printed


def test_recompiles_are_counted(check):
    for target in ("sizes", "iterated"):
        status, printed, _ = check(f"nets:{target}")
        assert status == 1 and "too-many-recompiles: 1 recompile, where 0 are allowed" in printed
        assert check(f"nets:{target}", "--max-recompiles", "1")[0] == 0
        assert check(f"nets:{target}", "--dynamic")[0] == 0
        assert "2 recompiles, where 1 is allowed" in check(f"nets:{target}", "--max-recompiles=1", "--no-dynamic")[1]


def test_more_recompiles_than_the_limit_of_entries_are_counted(check):
    with dl.config.patch(recompile_limit=1):
        assert "2 recompiles, where 1 is" in check("nets:sizes", "--max-recompiles=1", "--no-dynamic")[1]


def test_nothing_captured_fails(check):
    status, printed, _ = check("nets:plain", "nets:under_mode")
    assert status == 1 and printed.count("nothing-captured") == 2
    assert "a TorchDispatchMode is in force" in printed


def test_check_captures_under_a_tracer(check):
    """Coverage uses such a tracer, before sys.monitoring."""
    lines = []
    sys.settrace(lambda frame, event, arg: lines.append(frame.f_lineno))
    try:
        status, printed, _ = check("nets:broken")
    finally:
        sys.settrace(None)
    assert status == 1 and "DL0301" in printed and lines


def test_train(check):
    status, printed, _ = check("nets:no_gradients", "--train")
    assert status == 1 and "not-trained" in printed
    assert check("nets:trains")[0] == 0
    status, printed, _ = check("nets:trains", "--train")
    assert status == 1 and "DL0202" in printed
    trained = sys.modules["nets"].trained
    assert trained.weight.grad is not None and not trained.training


def test_a_backend_that_fails(check, monkeypatch):
    def raising(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        raise ZeroDivisionError("in the backend")

    from dynamo_lite.backends import registry

    monkeypatch.setitem(registry._BACKENDS, "raising", raising)
    status, printed, _ = check("nets:one", "--backend", "raising")
    assert status == 1 and "backend-failed: backend 'raising' raised ZeroDivisionError: in the backend" in printed


def test_json(check):
    status, printed, _ = check("nets:broken", "nets:one", "--format", "json")
    found = json.loads(printed)
    assert status == 1 and not found["ok"]
    broken, one = found["targets"]
    assert (broken["target"], broken["ok"], broken["graphs"], broken["recompiles"]) == ("nets:broken", False, 2, [])
    (finding,) = broken["findings"]
    assert finding["code"] == "DL0301" and finding["hint"].startswith("use torch.where")
    assert finding["place"] == dict(file="nets.py", line=12, function="Net.forward", text="if y.sum() > 0:")
    assert finding["stack"][-1] == finding["place"]
    assert one["ok"] and one["findings"] == []


def test_a_file_with_a_factory(check):
    assert check("./nets.py:one")[0] == 0


def test_break_in_a_callee_is_reported_once(check):
    status, printed, _ = check("nets:loud")
    assert status == 1 and "FAIL nets:loud: 1 graph, 1 break, 0 recompiles" in printed, printed


def test_a_script(check):
    status, printed, complained = check("script.py")
    assert status == 1 and complained == "the script has []\nbetween\n"
    assert "FAIL script.py: 2 graphs, 1 break, 0 recompiles" in printed
    assert "script.py:17: DL0202 print() has a side effect" in printed and "never_called" not in printed
    assert check("script.py", "--max-graphs", "2")[0] == 0


def test_a_script_that_compiles_nothing(check, tmp_path):
    (tmp_path / "other.py").write_text("import torch\ntorch.ones(2) + 1\n")
    status, printed, _ = check("other.py")
    assert status == 1 and "other.py calls nothing that it compiles with dl.compile" in printed


_DECORATED = """
import torch
import dynamo_lite as dl


@DECORATOR
def broken(x):
    print("between")
    return x + 1


broken(torch.ones(3))
"""


@pytest.mark.parametrize("decorator", ['torch.compile(backend="eager")', 'dl.optimize("eager")'])
def test_a_script_that_compiles_in_another_way(decorator, check, tmp_path):
    (tmp_path / "other.py").write_text(_DECORATED.replace("DECORATOR", decorator))
    status, printed, _ = check("other.py")
    assert status == 1 and "other.py:8: DL0202 print() has a side effect" in printed


@pytest.mark.parametrize("block", ['dl.enable("eager")', 'dl.optimize("eager")'])
def test_a_script_that_compiles_a_block(block, check, tmp_path):
    (tmp_path / "other.py").write_text(f"import torch, dynamo_lite as dl\nwith {block}:\n    torch.ones(2) + 1\n")
    status, printed, _ = check("other.py")
    assert (
        status == 2 and "target-failed: other.py compiles a block, which isn't one call that can be checked" in printed
    )


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nets", "'nets' is not a valid target: give pkg.module:factory"),
        ("nets:", "'nets:' is not a valid target"),
        ("missing.py", "there is no file missing.py"),
        ("missing.py:one", "there is no file missing.py"),
        ("missing_module:one", "there is no module 'missing_module' here"),
        ("nets:missing", "nets has no 'missing'"),
        ("nets:VALUE", "nets:VALUE is not a function (got 3)"),
        ("nets:nothing", "nets:nothing gave an int, not (fn, args)"),
        ("nets:no_tuple", "nets:no_tuple gave a Tensor as args, not a tuple"),
        ("nets:no_tuples", "nets:no_tuples gave a Tensor among its inputs"),
        ("nets:no_inputs", "nets:no_inputs gives no inputs"),
        ("nets:no_input", "nets has no 'no_input'; did you mean 'no_inputs'?"),
    ],
)
def test_invalid_target_is_reported_and_others_are_checked(check, target, words):
    status, printed, complained = check(target, "nets:one")
    assert (status, complained) == (2, "")
    failed, what, hint, passed, last = printed.splitlines()
    assert failed == f"FAIL {target}: not checked"
    assert what.startswith("     target-failed: ") and words in what
    assert hint == "       hint: dynamo-lite check --help says what a target is"
    assert passed.startswith("ok   nets:one: ") and last == "1 passed, 1 failed"


@pytest.mark.parametrize(
    ("target", "file", "words"),
    [
        ("nets:fails", "nets.py", "nets:fails raised KeyError: 'nothing here'"),
        ("nets:fails_when_called", "linear.py", "with input 1 raised RuntimeError"),
    ],
)
def test_raising_target_is_reported_at_its_line(check, target, file, words):
    status, printed, complained = check(target, "nets:one")
    assert (status, complained) == (2, "") and "1 passed, 1 failed" in printed
    assert re.search(rf"     \S*{file}:\d+: target-failed: .*{re.escape(words)}", printed)
    assert "hint: --traceback prints the traceback" in printed
    status, printed, complained = check(target, "--traceback")
    assert complained.startswith("Traceback (most recent call last):\n") and file in complained
    assert "dynamo_lite" not in complained


def test_a_document_has_all_targets(check):
    status, printed, _ = check("nets:fails", "nets:one", "--format", "json")
    document = json.loads(printed)
    assert status == 2 and [each["ok"] for each in document["targets"]] == [False, True]
    assert document["targets"][0]["findings"][0]["code"] == "target-failed"
    assert all(each["seconds"] > 0 for each in document["targets"])
    status, printed, _ = check("nets:fails", "nets:one", "--format", "junit")
    cases = ElementTree.fromstring(printed).findall(".//testcase")
    assert [case.find("failure") is None for case in cases] == [False, True]
    assert all(float(case.get("time")) >= 0 for case in cases) and float(cases[1].get("time")) > 0


def test_ctrl_c_keeps_earlier_findings(check, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    check("nets:one")
    monkeypatch.setattr(sys.modules["nets"], "broken", interrupted)
    status, printed, complained = check("nets:one", "nets:broken", "nets:plain")
    assert status == 130 and printed.splitlines()[-1] == "1 passed, 0 failed"
    assert complained == "interrupted: 1 of 3 targets were checked\n"


def test_a_class_or_a_function_is_checked_with_inputs(check, tmp_path):
    (tmp_path / "types.py").write_text(
        """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def forward(self, x, indices):
        assert not self.training
        return self.layer(x)[indices]

def doubled(x):
    return x * 2
"""
    )
    before = sys.modules["types"]
    inputs = ["--input", "float32[4, 8]", "--input", "int64[3]"]
    assert check("types.py:Net", *inputs)[:2] == (
        0,
        "ok   types.py:Net: 1 graph, 0 breaks, 0 recompiles\n1 passed, 0 failed\n",
    )
    assert check("types.py:doubled", "--input", "float32[]")[0] == 0
    assert sys.modules["types"] is before
    status, printed, _ = check("types.py:Net")
    assert status == 2 and "types.py:Net is a module's class: say what it is called with, such as --input" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: TARGET"),
        (["nets:one", "--max-graphs", "few"], "'few' must be a non-negative integer"),
        (["nets:one", "--backend", "xyzzy"], "no backend 'xyzzy'; there are: "),
        (["nets:one", "--format", "pdf"], "invalid choice: 'pdf'"),
        (["nets:one", "--input", "float32"], "--input 'float32' is not a dtype with sizes, such as 'float32[4,8]'"),
        (["nets:one", "--input", "load[3]"], "--input 'load[3]' is not a dtype with sizes"),
    ],
)
def test_bad_input_is_one_sentence(check, arguments, words):
    status, printed, complained = check(*arguments)
    assert (status, printed) == (2, "")
    assert complained.startswith("dynamo-lite") and words in complained and complained.count("\n") == 1


def test_scripts_neither_train_nor_take_inputs(check):
    assert "target-failed: --train is for factories" in check("script.py", "--train")[1]
    assert "target-failed: --input is for classes and functions" in check("script.py", "--input", "bool[2]")[1]


def test_command_runs_as_an_installed_program(tmp_path):
    (tmp_path / "nets.py").write_text(MODELS)
    program = f"""
import os, runpy, sys
os.chdir({str(tmp_path)!r})
sys.argv = ["dynamo_lite", "check", "nets:broken"]
runpy.run_module("dynamo_lite", run_name="__main__")
"""
    ended = run_program(program)
    assert ended.returncode == 1 and "nets.py:12: DL0301" in ended.stdout, ended.stderr


class Stream(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "variables", "is_coloured"),
    [
        (True, {}, True),
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colours(is_terminal, variables, is_coloured, monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    stream = Stream(is_terminal)
    reports.write("FAIL [red] net:ok :ok: \ud800\n  hint: this\n", stream)
    plain = "FAIL [red] net:ok :ok: \\ud800\n  hint: this\n"
    coloured = "\x1b[1;31mFAIL [red] net:ok :ok: \\ud800\x1b[0m\n\x1b[2m  hint: this\x1b[0m\n"
    assert stream.getvalue() == (coloured if is_coloured else plain)
