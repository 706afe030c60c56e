"""Every test starts and ends with nothing compiled, the hook out, and torch's global state as it was."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import devices
import reference
import selection

HERE = Path(__file__).resolve().parent
# What tests start in processes of their own imports the package and the helpers, too.
PATHS = (os.environ.get("PYTHONPATH"), HERE.parent, HERE / "support")
os.environ["PYTHONPATH"] = os.pathsep.join(str(path) for path in PATHS if path)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # Python runs Triton's kernels

devices.use()

if reference.MODE:
    sys.modules["dynamo_lite"] = reference  # the programs run against the reference instead
    collect_ignore_glob = reference.NOT_FOR_REFERENCE

import dynamo_lite as dl  # noqa: E402

if not reference.MODE:
    from dynamo_lite.compiler import observers
    from dynamo_lite.insight import notices

    # What is said once a process would be said in the first test that meets it.
    notices.said.update(value for value in vars(observers).values() if isinstance(value, observers.WhyNotHere))

    dl.config.enable_allowance = 60.0  # what is captured doesn't depend on how busy the machine is
    dl.config.internal_errors = "raise"  # in dl.enable, too


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dynamo_lite")
    group.addoption("--sample", type=float, metavar="FRACTION", help="of the tests that no version of CPython changes")
    group.addoption("--sample-from-all", action="store_true", help="draw from the interpreter's tests, too")
    group.addoption("--sample-seed", default="0", metavar="TEXT", help="what draws the sample")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("sample") is not None:
        drawn = f"--sample={config.getoption('sample')} --sample-seed={config.getoption('sample_seed')}"
        if config.getoption("sample_from_all"):
            drawn += " --sample-from-all"
        terminalreporter.line(f"The tests were a sample: {drawn}")


@pytest.hookimpl(tryfirst=True)  # before -m chooses by the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    fraction, seed = config.getoption("sample"), config.getoption("sample_seed")
    for item in items:
        selection.mark(item, item.path.relative_to(HERE))
    items[:] = [each for each in items if devices.takes(each, each.path.relative_to(HERE).parts[0])]
    if fraction is not None:
        from_all = config.getoption("sample_from_all")
        left_out = [item for item in items if not selection.sampled(item, fraction, seed, from_all=from_all)]
        items[:] = [item for item in items if selection.sampled(item, fraction, seed, from_all=from_all)]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported and collected stays: the collector, which tests call often, need not walk it each time."""
    gc.collect()
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "changes_what_is_guarded: while it is compiled; elsewhere that is a bug of ours")


@pytest.fixture(autouse=True)
def clean_state(request: pytest.FixtureRequest) -> Iterator[None]:
    dl.reset()
    dl.counters.reset()
    dtype = torch.get_default_dtype()
    devices.use()
    torch.manual_seed(0)
    random.seed(0)
    excepthook = sys.excepthook
    yield
    sys.excepthook = excepthook  # a process group replaces it, and leaves its own
    devices.check_is_alive()
    grad, default = torch.is_grad_enabled(), torch.get_default_dtype()
    torch.set_grad_enabled(True)
    torch.set_default_dtype(dtype)
    # torch 2.11 leaves them disabled, in eager too, where the function of a torch.func.grad raises.
    torch._C._autograd._saved_tensors_hooks_enable()
    assert grad, "grad mode leaked out of the test"
    assert default is dtype, "the default dtype leaked out of the test"
    assert not torch.is_autocast_enabled("cpu"), "autocast leaked out of the test"
    assert sys.gettrace() is None and sys.getprofile() is None, "a trace function leaked out of the test"
    if not reference.MODE:
        from dynamo_lite import _C

        assert not _C.hook_installed(), "the frame hook is still installed though nobody needs it"
        changes = request.node.get_closest_marker("changes_what_is_guarded") is not None
        assert changes or not dl.counters.outdated, "a guard doesn't hold of the frame that it was made from"
