"""A plugin of pytest, in the processes that `suites` starts: how each test ended and how long it took, in the process's
own time, and, where ``SUITE_WAY`` isn't "plain", the hook on while tests run.

Both runs of a test draw the same random numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from _pytest.unittest import TestCaseFunction

WAY = os.environ["SUITE_WAY"]
HOOK = WAY != "plain"
CHOSEN = json.loads(Path(os.environ["SUITE_CHOSEN"]).read_text())
RESULT = Path(os.environ["SUITE_RESULT"])

if HOOK:
    import dynamo_lite as dl
    from dynamo_lite import _C

    if WAY == "at-once":
        dl.config.enable_allowance = math.inf
        dl.config.internal_errors = "raise"
    with dl.enable("eager"):
        OWNER = _C.current_owner()

outcomes: dict[str, str] = {}
details: dict[str, str] = {}
seconds: dict[str, float] = {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    only = None if CHOSEN["only"] is None else set(CHOSEN["only"])
    chosen = [item for item in items if only is None or item.nodeid in only]
    chosen = [item for item in chosen if not any(part in item.nodeid for part in CHOSEN["left_out"])]
    items[:] = chosen


@contextlib.contextmanager
def hooked() -> Iterator[None]:
    """The hook on, with the same owner each time: one `dl.enable` for all tests, as in a user's process."""
    _C.enter_block(OWNER, process=True)
    try:
        yield
    finally:
        _C.leave_block(OWNER, process=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """The test's own frame is the first that the hook sees: pytest's would reach the limit of entries, and all that
    they call would run in eager."""
    if not HOOK:
        return None
    names = pyfuncitem._fixtureinfo.argnames
    with hooked():
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Tests of unittest, which are called by the standard library."""
    if not HOOK or not isinstance(item, TestCaseFunction):
        return (yield)
    with hooked():
        return (yield)


def seed() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def pytest_configure() -> None:
    seed()  # parameters of tests, which are drawn when these are collected


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    seed()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    began = time.process_time()  # what else the machine does isn't in it
    result = yield
    seconds[item.nodeid] = time.process_time() - began
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    test = report.nodeid
    if report.outcome == "passed" and outcomes.get(test, "passed") == "passed":
        outcomes[test] = "passed"
    elif report.outcome != "passed":
        outcomes[test] = report.outcome
        details[test] = str(report.longrepr)


def pytest_sessionfinish() -> None:
    counters: dict[str, Any] = {}
    if HOOK:
        from dynamo_lite.insight.counters import counters as totals

        names = [each.name for each in dataclasses.fields(totals)]
        counters = {name: getattr(totals, name) for name in names if name not in ("break_reasons", "_constructs")}
    found = {"outcomes": outcomes, "details": details, "seconds": seconds, "counters": counters}
    RESULT.write_text(json.dumps(found))
