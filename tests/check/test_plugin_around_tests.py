"""pytest's plugin where a test isn't a plain function that passes: doctests, threads, assertions that fail; and a
report at a symbolic link."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONFTEST = """
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker("fullgraph")
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "pytest_dynamo_lite", "-p", "no:cacheprovider", *options)


def test_doctests_are_captured(pytester: pytest.Pytester):
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(
        whole='''
import torch

def doubled(x):
    """
    >>> doubled(torch.ones(2))
    tensor([2., 2.])
    >>> doubled(torch.ones(2)) + 1
    tensor([3., 3.])
    """
    return x * 2
''',
        broken='''
import torch

def prints(x):
    """
    >>> prints(torch.ones(2))
    here
    tensor([2., 2.])
    """
    y = x * 2
    print("here")
    return y + 0
''',
    )
    result = run(pytester, "--doctest-modules", "whole.py", "broken.py")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["broken.py:10: DL0202 print() has a side effect that can't be captured"])


def test_other_threads_are_not_captured_and_that_is_said(pytester: pytest.Pytester):
    pytester.makepyfile(
        """
import threading
import pytest
import torch

def doubled(x):
    return x * 2

@pytest.mark.fullgraph
def test_on_a_thread():
    thread = threading.Thread(target=doubled, args=(torch.ones(2),))
    thread.start()
    thread.join()
"""
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "nothing-captured: no graph was captured in *::test_on_a_thread",
            "  hint: call a function or module that computes with tensors, on the test's own thread: the test's own "
            "statements and other threads run in eager",
        ]
    )


def test_an_assertion_that_fails_hides_no_break(pytester: pytest.Pytester):
    pytester.makepyfile(
        """
import pytest
import torch

def prints(x):
    y = x * 2
    print("here")
    return y + 0

@pytest.mark.fullgraph
def test_prints():
    assert prints(torch.ones(2)).sum() == 5

@pytest.mark.fullgraph
def test_whole():
    assert (lambda x: x * 2)(torch.ones(2)).sum() == 5
"""
    )
    result = run(pytester)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*assert *tensor(4.) == 5*",
            "*- Captured fullgraph call -*",
            "test_an_assertion_that_fails_hides_no_break.py:6: DL0202 print() has a side effect that can't be captured",
        ]
    )
    assert result.stdout.str().count("Captured fullgraph call") == 1


def test_a_report_is_not_written_through_a_symbolic_link(pytester: pytest.Pytester):
    pytester.makepyfile(test_it="def test_it():\n    pass\n")
    (pytester.path / "page.html").symlink_to(pytester.path / "elsewhere")
    result = run(pytester, "--fullgraph-report=page.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR and not (pytester.path / "elsewhere").exists()
    result.stderr.fnmatch_lines(
        [
            "ERROR: --fullgraph-report=page.html can't be written: it is a symbolic link, which reports are not "
            "written through"
        ]
    )
