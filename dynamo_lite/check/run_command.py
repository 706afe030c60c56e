"""``dynamo-lite run script.py args…``: a program in `dynamo_lite.takeover`, with what was captured at its end."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Callable
from pathlib import Path

from dynamo_lite.api import takeover
from dynamo_lite.insight.counters import counted, counters
from dynamo_lite.insight.program_files import traceback_without_ours

from .targets import BadTarget

_DESCRIPTION = """\
Run a program as python does; what it compiles with torch.compile goes through dynamo_lite. PROGRAM is a script, a
module with -m, or a command that a package installs, such as pytest. A summary of what was captured is printed to
stderr at the end. Processes that the program starts are not affected."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the sub-command."""
    shown = "dynamo-lite run [-h] (PROGRAM | -m MODULE) [args ...]"
    parser = commands.add_parser(
        "run", help="run a program with torch.compile taken over", description=_DESCRIPTION, usage=shown
    )
    parser.add_argument("-m", action="store_true", dest="is_module", help="PROGRAM is a module")
    parser.add_argument("program", metavar="PROGRAM", help="a script, a module, or an installed command")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="the arguments of the program").required = False
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program. Returns the exit status. An exception of the program's is printed as python does, with its own
    frames."""
    start = _start(options.program, options.is_module)
    sys.argv[:] = [options.program, *options.args]
    counters.reset()
    taken = takeover()
    try:
        with taken:
            start()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        error = error.with_traceback(traceback_without_ours(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        print(_summary(taken.called), file=sys.stderr)
    return 0


def _start(program: str, is_module: bool) -> Callable[[], object]:
    """What runs the program.

    Raises:
        BadTarget: there is none of that name.
    """
    if is_module:
        sys.path.insert(0, os.getcwd())
        first = program.partition(".")[0]
        if not first or importlib.util.find_spec(first) is None:
            raise BadTarget(f"there is no module {program!r} here (looked for from {os.getcwd()})")
        return lambda: runpy.run_module(program, run_name="__main__", alter_sys=True)
    path = os.path.abspath(program)  # which ``__file__`` is
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise BadTarget(f"{program!r} is a folder without a __main__.py")
    if os.path.isdir(path) or path.endswith((".pyc", ".pyz", ".zip")) and os.path.exists(path):
        return lambda: runpy.run_path(path, run_name="__main__")
    if os.path.exists(path):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
        return lambda: _run_script(path)
    installed = importlib.metadata.entry_points(group="console_scripts", name=program)
    if not installed:
        raise BadTarget(f"{program!r} is neither a file nor a command that a package installs; -m runs a module")
    sys.path.insert(0, os.getcwd())
    return lambda: sys.exit(next(iter(installed)).load()())


def _run_script(path: str) -> None:
    """As python does: `runpy` would put our ``__main__`` back before the program's threads and exit handlers end."""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = path
    exec(compile(Path(path).read_bytes(), path, "exec", dont_inherit=True), vars(module))


def _summary(called: int) -> str:
    """What was captured, and where it breaks most."""
    if not called:
        return "dynamo_lite: nothing that torch.compile returned was called"
    parts = [counted(called, "function"), counted(counters.graphs, "graph"), counted(counters.graph_breaks, "break")]
    lines = [f"dynamo_lite: {', '.join(parts)}, {counted(counters.recompiles, 'recompilation')}"]
    for place, count in counters.break_places.most_common(_SHOWN):
        lines.append(f"  {place}" + (f" ({count} times)" if count > 1 else ""))
    folder = os.environ.get("DYNAMO_LITE_REPORT")
    if folder:
        lines.append(f"  the report is in {os.path.join(folder, 'index.html')}")
    elif counters.graph_breaks or counters.recompiles:
        lines.append("  DYNAMO_LITE_REPORT=folder writes a page of all of it; dynamo-lite explain CODE says what to do")
    return "\n".join(lines)


_SHOWN = 3
"""How many of the places that break most are named."""
