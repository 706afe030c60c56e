"""``dynamo-lite run script.py args…``: a program in `dynamo_lite.takeover`, with what was captured in one line."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import runpy
import sys
from collections.abc import Callable

from dynamo_lite.api import takeover
from dynamo_lite.insight.counters import counters

from . import reports
from .findings import counted

_DESCRIPTION = """\
Runs a program as python does; what it compiles with torch.compile goes through dynamo_lite. PROGRAM is a script, a
module with -m, or a command that a package installs, such as pytest. What was captured is said on stderr at the end.
Processes that the program starts anew run as they always do."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    shown = "dynamo-lite run [-h] (PROGRAM | -m MODULE) [args ...]"
    parser = commands.add_parser(
        "run", help="run a program with torch.compile taken over", description=_DESCRIPTION, usage=shown
    )
    parser.add_argument("-m", action="store_true", dest="is_module", help="PROGRAM is a module")
    parser.add_argument("program", metavar="PROGRAM", help="a script, a module, or an installed command")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="the program's own")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program. Returns the exit status; what the program raises is raised."""
    start = _start(options.program, options.is_module)
    if start is None:
        reports.fail(f"{options.program!r} is neither a file nor a command that a package installs; -m runs a module")
        return 2
    sys.argv[:] = [options.program, *options.args]
    counters.reset()
    taken = takeover()
    try:
        with taken:
            start()
    finally:
        print(_summary(taken.called), file=sys.stderr)
    return 0


def _start(program: str, is_module: bool) -> Callable[[], object] | None:
    """What runs the program; None if there is none of that name."""
    if is_module:
        sys.path.insert(0, os.getcwd())
        return lambda: runpy.run_module(program, run_name="__main__", alter_sys=True)
    if os.path.exists(program):
        sys.path.insert(0, os.path.dirname(os.path.realpath(program)))
        return lambda: runpy.run_path(program, run_name="__main__")
    installed = importlib.metadata.entry_points(group="console_scripts", name=program)
    if not installed:
        return None
    sys.path.insert(0, os.getcwd())
    return lambda: sys.exit(next(iter(installed)).load()())


def _summary(called: int) -> str:
    """What was captured."""
    if not called:
        return "dynamo_lite: nothing that torch.compile returned was called"
    parts = [counted(called, "function"), counted(counters.graphs, "graph"), counted(counters.graph_breaks, "break")]
    return f"dynamo_lite: {', '.join(parts)}, {counted(counters.recompiles, 'recompilation')}"
