"""``--fullgraph-report``: a path that can't be written is an error before the tests."""

from __future__ import annotations

import sys

import pytest

pytest_plugins = ["pytester"]

TESTS = "def test_it():\n    pass\n"


def test_unwritable_path_is_an_error_before_the_tests(pytester: pytest.Pytester):
    pytester.makepyfile(test_it=TESTS)
    result = pytester.runpytest_subprocess("-p", "pytest_dynamo_lite", "--fullgraph-report=test_it.py/page.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR and "passed" not in result.stdout.str()
    result.stderr.fnmatch_lines(["ERROR: --fullgraph-report=test_it.py/page.html can't be written: File exists"])


WITHOUT_JINJA2 = """
import importlib.util
import sys
import pytest

find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "jinja2" else find_spec(name, *rest)
sys.exit(pytest.main(["-p", "pytest_dynamo_lite", "--fullgraph-report=page.html"]))
"""


def test_without_jinja2(pytester: pytest.Pytester):
    pytester.makepyfile(test_it=TESTS)
    result = pytester.run(sys.executable, "-c", WITHOUT_JINJA2)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --fullgraph-report needs jinja2: pip install 'dynamo_lite[[]report]'"])
