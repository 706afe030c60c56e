"""What pytest loads of dynamo_lite: the mark ``fullgraph``, the fixture ``capture`` and the option
``--fullgraph-report``.

It is a package of its own, as pytest imports it in every run where dynamo_lite is installed: it imports neither torch
nor dynamo_lite before a test needs them.
"""

from __future__ import annotations

import errno
import importlib.util
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dynamo_lite.check.pytest_plugin import Capture

_MARK = (
    'fullgraph(dynamic=None, max_graphs=1, max_recompiles=0, backend="eager", train=False): each call that the test '
    "makes is captured as one graph, else it fails"
)
_REPORT = "fullgraph_report"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dynamo_lite")
    what = "write a page of the graphs and breaks of tests that are marked fullgraph, or ask for capture"
    group.addoption("--fullgraph-report", metavar="PATH", help=what)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    path = config.getoption(_REPORT)
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Report(path, config.invocation_params.dir / path), "dynamo_lite_report")


@pytest.fixture
def capture(request: pytest.FixtureRequest) -> Capture:
    """What dynamo_lite captures in this test: ``graphs``, ``breaks``, ``recompiles``."""
    from dynamo_lite.check import pytest_plugin

    return pytest_plugin.capture_of(request.node)


@pytest.hookimpl(wrapper=True, trylast=True)  # within what others set up around the call
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    if item.get_closest_marker("fullgraph") is None and "capture" not in getattr(item, "fixturenames", ()):
        return (yield)
    from dynamo_lite.check import pytest_plugin

    with pytest_plugin.capturing(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    found = item.__dict__.pop("_dynamo_lite_result", None)
    if found is not None and call.when == "call":
        report.dynamo_lite = found  # plain data, which xdist sends along
    return report


class _Report:
    """Gathers what tests captured, in the process that shows the results."""

    def __init__(self, shown: str, path: Path) -> None:
        if importlib.util.find_spec("jinja2") is None:
            raise pytest.UsageError("--fullgraph-report needs jinja2: pip install 'dynamo_lite[report]'")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666))
        except OSError as error:
            is_link = error.errno == errno.ELOOP
            why = "it is a symbolic link, which reports are not written through" if is_link else error.strerror
            raise pytest.UsageError(f"--fullgraph-report={shown} can't be written: {why}") from error
        self._shown, self._path = shown, str(path)
        self._found: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = getattr(report, "dynamo_lite", None)
        if found is not None:
            self._found.append({**found, "outcome": report.outcome})

    def pytest_sessionfinish(self) -> None:
        from dynamo_lite.check import report_page

        report_page.write(self._path, self._found)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.line(f"fullgraph report: {self._shown}")
