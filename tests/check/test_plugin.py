"""The pytest plugin: which calls of a test it captures, when the test fails, and that other tests are unaffected."""

from __future__ import annotations

import re
import sys

import pytest
from _pytest.pytester import SysModulesSnapshot

from processes import run_program

pytest_plugins = ["pytester"]

MODELS = """
import pytest
import torch
from torch import nn


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x).relu()


class Broken(Whole):
    def forward(self, x):
        y = super().forward(x)
        if y.sum() > 0:
            y = y + 1
        return y


@pytest.fixture
def whole():
    torch.manual_seed(0)
    return Whole()


@pytest.fixture
def broken():
    return Broken()
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Runs tests, given as text, in a folder with these models."""

    def snapshot() -> SysModulesSnapshot:
        return SysModulesSnapshot(preserve=lambda name: not name.startswith(("conftest", "test_")))

    # Modules that torch imports when it first needs them must not be imported anew.
    monkeypatch.setattr(pytester, "_Pytester__take_sys_modules_snapshot", snapshot)
    monkeypatch.setattr(pytester, "_sys_modules_snapshot", snapshot())

    def runs(tests: str, *options: str) -> pytest.RunResult:
        pytester.makeconftest(MODELS)
        pytester.makepyfile("import pytest\nimport torch\nfrom conftest import *\n" + tests)
        return pytester.runpytest_inprocess("-p", "pytest_dynamo_lite", "-p", "no:cacheprovider", *options)

    return runs


def test_a_call_that_is_one_graph_passes(run):
    tests = """
@pytest.mark.fullgraph
def test_whole(whole):
    torch.manual_seed(1)
    x = torch.ones(2, 3)
    y = whole(x)
    assert y.sum() > -1000
    assert torch.equal(y, y) and torch.allclose(whole(x), y)
    torch.testing.assert_close(y, y)
    with pytest.raises(RuntimeError):
        torch.ones(2) @ torch.ones(3)


@pytest.mark.fullgraph
def test_two_models(whole, capture):
    other = Whole()
    other.load_state_dict(whole.state_dict())
    optimizer = torch.optim.SGD(other.requires_grad_(True).to(torch.float32).parameters(), 0.1)
    other(whole(torch.ones(2, 3))).sum().backward()
    optimizer.step()
    assert len(capture.graphs) == 2


@pytest.mark.fullgraph
class TestInClass:
    @pytest.mark.parametrize("rows", [2, 3])
    def test_method(self, whole, rows):
        whole(torch.ones(rows, 3))
"""
    run(tests, "--strict-markers").assert_outcomes(passed=4)


def test_a_break_fails_with_the_users_line(run):
    tests = """
@pytest.mark.fullgraph
def test_broken(broken):
    broken(torch.ones(2, 3))
    print("done")
"""
    result = run(tests)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "conftest.py:18: DL0301 the program branches on a tensor's value, which is not known while tracing",
            "    if y.sum() > 0:",
            "  hint: use torch.where*",
            "test_a_break_fails_with_the_users_line.py::test_broken: 2 graphs, 1 break, 0 recompiles",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_more_graphs_may_be_allowed(run):
    tests = """
@pytest.mark.fullgraph(max_graphs=2)
def test_allowed(broken, capture):
    broken(torch.ones(2, 3))
    assert len(capture.graphs) == 2 and capture.breaks[0].reason.code == "DL0301"


@pytest.mark.fullgraph(max_graphs=0)
def test_none(whole):
    whole(torch.ones(2, 3))
"""
    result = run(tests)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*too-many-graphs: one call of *test_none has 1 graph, where 0 are allowed"])


def test_nothing_captured_fails(run):
    tests = """
@pytest.fixture
def mode():
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False):
        yield

@pytest.mark.fullgraph
def test_empty():
    assert torch.ones(3).sum() == 3

@pytest.mark.fullgraph
def test_under_mode(mode, whole):
    whole(torch.ones(2, 3))

@pytest.mark.fullgraph
def test_own_error(broken):
    broken(torch.ones(2, 3))
    raise KeyError("mine")

@pytest.mark.fullgraph
def test_skipped():
    pytest.skip("here")
"""
    result = run(tests, "-rA")
    result.assert_outcomes(failed=3, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "nothing-captured: no graph was captured in *::test_empty",
            "  hint: call a function or module that computes with tensors, on the test's own thread: the test's own "
            "statements and other threads run in eager",
            "nothing-captured: *a TorchDispatchMode is in force*",
            "*KeyError: 'mine'",
        ]
    )


def test_recompiles_and_sizes(run):
    tests = """
@pytest.mark.fullgraph
def test_recompiles(whole):
    for rows in (2, 3, 4):
        whole(torch.ones(rows, 3))

@pytest.mark.fullgraph(max_recompiles=1)
def test_allowed(whole):
    for rows in (2, 3, 4):
        whole(torch.ones(rows, 3))

@pytest.mark.fullgraph(dynamic=True)
def test_dynamic(whole, capture):
    for rows in (2, 3, 4):
        whole(torch.ones(rows, 3))
    assert len(capture.graphs) == 1 and capture.recompiles == []
"""
    result = run(tests)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*too-many-recompiles: 1 recompile, where 0 are allowed:"])


def test_train(run):
    tests = """
@pytest.mark.fullgraph(train=True, backend="aot_eager")
def test_trains(whole):
    whole(torch.ones(2, 3)).sum().backward()
    assert whole.inner.weight.grad is not None

@pytest.mark.fullgraph(train=True)
def test_frozen(whole):
    whole.requires_grad_(False)
    whole(torch.ones(2, 3))
"""
    result = run(tests)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["not-trained: *"])


def test_the_fixture_alone_requires_nothing(run):
    tests = """
def test_broken(broken, capture):
    assert capture.graphs == []
    broken(torch.ones(2, 3))
    assert len(capture.graphs) == 2 and len(capture.breaks) == 1

def test_unrelated(broken):
    from dynamo_lite import _C
    broken(torch.ones(2, 3))
    assert not _C.hook_installed()
"""
    run(tests).assert_outcomes(passed=2)


def test_frames_of_pytest_and_fixtures_are_left_alone(run):
    tests = """
@pytest.fixture
def noisy():
    print("made", torch.ones(2) + 1)
    return Broken()(torch.ones(2, 3))

@pytest.mark.fullgraph
def test_asks_later(request, whole, monkeypatch, capture):
    request.getfixturevalue("noisy")
    monkeypatch.setattr(whole, "training", False)
    assert capture.graphs == []
    whole(torch.ones(2, 3))
    with pytest.raises(ZeroDivisionError):
        1 / 0
"""
    run(tests).assert_outcomes(passed=1)


def test_unittest_and_decorators(run):
    tests = """
import unittest
from unittest import mock

class TestOld(unittest.TestCase):
    @pytest.mark.fullgraph
    def test_whole(self):
        self.assertEqual(Whole()(torch.ones(2, 3)).shape, (2, 3))

    @pytest.mark.fullgraph
    def test_broken(self):
        self.assertEqual(Broken()(torch.ones(2, 3)).shape, (2, 3))

@pytest.mark.fullgraph
@mock.patch("os.getcwd")
def test_patched(getcwd, whole):
    whole(torch.ones(2, 3))
"""
    result = run(tests)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["conftest.py:18: DL0301 *"])


def test_hypothesis(run):
    """Every example is captured. Hypothesis' own functions aren't."""
    text = """
from hypothesis import given, settings, strategies as st

SIZES = given(n=st.integers(2, 6))
QUICK = settings(deadline=None, max_examples=5, database=None)

@pytest.mark.fullgraph(max_recompiles=1)
@QUICK
@SIZES
def test_whole(n):
    torch.manual_seed(0)
    Whole()(torch.ones(n, 3))

@pytest.mark.fullgraph(max_recompiles=1)
@QUICK
@SIZES
def test_broken(n):
    Broken()(torch.ones(n, 3))
"""
    result = run(text)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*if y.sum() > 0:*"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("2", "pytest.mark.fullgraph has no argument 2; it takes, by name, dynamic, max_graphs"),
        ("max_graph=2", "pytest.mark.fullgraph has no argument max_graph;"),
        ("max_graphs=-1", "max_graphs of pytest.mark.fullgraph must be a non-negative integer, not -1"),
        ("dynamic=1", "dynamic of pytest.mark.fullgraph must be True, False or None, not 1"),
        ("train=None", "train of pytest.mark.fullgraph must be True or False, not None"),
        ("backend='xyzzy'", "no backend 'xyzzy'; there are: *"),
    ],
)
def test_a_wrong_mark_is_one_sentence(run, arguments, words):
    result = run(f"@pytest.mark.fullgraph({arguments})\ndef test_it(whole): whole(torch.ones(2, 3))\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{words}*"])


def test_report(run, pytester):
    """The report is written to the folder in which the tests began, even if they change their directory."""
    tests = """
import os

@pytest.mark.fullgraph
def test_broken(broken):
    broken(torch.ones(2, 3))

@pytest.mark.fullgraph
def test_whole(whole, tmp_path):
    os.chdir(tmp_path)
    whole(torch.ones(2, 3))

def test_plain():
    pass
"""
    result = run(tests, "--fullgraph-report=pages/out.html")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["fullgraph report: pages/out.html"])
    page = (pytester.path / "pages" / "out.html").read_text()
    assert "1 passed, 1 failed" in page and "if y.sum() &gt; 0:" in page and "relu" in page
    assert "test_report.py::test_whole" in page
    assert page.count("<section") == 2 and "prefers-color-scheme: dark" in page
    assert not re.search(r"<script|https?://|<link|<img", page)


def test_the_plugin_imports_no_torch():
    program = """
import subprocess, sys
code = "import pytest_dynamo_lite, sys; print(sorted({'torch', 'dynamo_lite'} & {*sys.modules}))"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
"""
    assert run_program(program).stdout.strip() == "[]"


OPTIONS = ("-p", "pytest_dynamo_lite", "-p", "no:cacheprovider")
BOTH = """
import pytest
from conftest import *

@pytest.mark.fullgraph
def test_whole(whole):
    whole(torch.ones(2, 3))

@pytest.mark.fullgraph
def test_broken(broken):
    broken(torch.ones(2, 3))
"""


@pytest.mark.full
def test_in_a_worker_of_xdist(pytester):
    pytester.makeconftest(MODELS)
    pytester.makepyfile(BOTH)
    result = pytester.runpytest_subprocess(*OPTIONS, "-n1", "--fullgraph-report=out.html")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["conftest.py:18: DL0301 *", "fullgraph report: out.html"])
    assert "1 passed, 1 failed" in (pytester.path / "out.html").read_text()


@pytest.mark.full
@pytest.mark.parametrize("core", ["ctrace", "sysmon"] if sys.version_info >= (3, 12) else ["ctrace"])
def test_under_coverage(pytester, core):
    """Under coverage all frames run in eager, except those that must be captured."""
    pytester.makeconftest(MODELS)
    pytester.makepyfile(test_both=BOTH)
    program = f"""
import os, sys
os.environ["COVERAGE_CORE"] = {core!r}
os.chdir({str(pytester.path)!r})
import coverage, pytest
measured = coverage.Coverage(config_file=False, data_file=None, include="*.py")
measured.start()
pytest.main({[*OPTIONS, "-n0"]!r})
measured.stop()
print("lines that ran:", measured.get_data().lines(os.path.abspath("test_both.py")))
"""
    ended = run_program(program)
    assert "1 failed, 1 passed" in ended.stdout and "conftest.py:18: DL0301" in ended.stdout, (
        ended.stdout + ended.stderr
    )
    assert re.search(r"lines that ran: \[.*\b6\b.*10", ended.stdout), ended.stdout
