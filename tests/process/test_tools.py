"""Tools beside compiled programs: coverage, debuggers, sampling profilers; in this process, and as commands."""

from __future__ import annotations

import io
import os
import pdb
import shutil
import subprocess
import sys
from pathlib import Path

import coverage
import pytest

LATER = sys.version_info >= (3, 12)

SOURCE = """import torch
import dynamo_lite as dl

def eager(x):
    y = x * 2
    if y.dim() > 5:
        y = y + 1
    return y

def whole(x):
    y = x * 2
    if y.dim() > 5:
        y = y + 1
    return y

def backend(gm, example_inputs):
    name = "mine"
    return gm.forward

dl.compile(eager, backend=backend)(torch.ones(2))
before = dl.counters.graphs
dl.compile(whole, backend=backend, fullgraph=True)(torch.ones(2))
print(before, dl.counters.graphs)
"""

STOPS = """import torch
import dynamo_lite as dl

def stops(x):
    y = x + 1
    breakpoint()
    z = y * 2
    return z

print(dl.compile(stops, backend="eager")(torch.ones(2)).tolist(), dl.counters.graphs)
"""


@pytest.fixture
def users_program(tmp_path):
    """Writes a program, and returns its path and the code."""

    def write(text):
        path = tmp_path / "users_program.py"
        path.write_text(text)
        return str(path), compile(text, str(path), "exec")

    return write


@pytest.mark.parametrize("core", ["ctrace", "sysmon"] if LATER else ["ctrace"])
@pytest.mark.filterwarnings("ignore:compiled functions run in eager")
def test_figures_of_coverage(users_program, core, monkeypatch, capsys):
    """Lines that run in eager and lines of the backend are counted. Lines of a whole graph aren't."""
    monkeypatch.setenv("COVERAGE_CORE", core)
    path, code = users_program(SOURCE)
    measured = coverage.Coverage(data_file=None, include=[path], config_file=False)
    measured.start()
    try:
        exec(code, {"__name__": "__main__"})
    finally:
        measured.stop()
    assert capsys.readouterr().out == "0 1\n"
    check_missed(measured, path)


def check_missed(measured, path):
    lines = SOURCE.splitlines()
    missed = [lines[number - 1].strip() for number in measured.analysis2(path)[3]]
    assert missed[0] == "y = y + 1" and missed[1:4] == ["y = x * 2", "if y.dim() > 5:", "y = y + 1"]
    assert len(missed) <= 5 and 'name = "mine"' not in missed


def session(*commands: str) -> tuple[pdb.Pdb, io.StringIO]:
    """Runs a debugger with these commands and returns its output."""
    output = io.StringIO()
    return pdb.Pdb(stdin=io.StringIO("\n".join(commands) + "\n"), stdout=output, nosigint=True, readrc=False), output


def stops_of(output: str, path: str) -> list[str]:
    """Returns the lines at which the debugger stopped."""
    lines = [line.removeprefix("(Pdb) ") for line in output.splitlines()]
    return [line.removeprefix(f"> {path}").partition("->")[0] for line in lines if line.startswith(f"> {path}")]


@pytest.mark.filterwarnings("ignore:compiled functions run in eager")
def test_breakpoints_of_pdb(users_program, capsys):
    """A breakpoint in a compiled function stops there; in a whole graph it does not."""
    path, code = users_program(SOURCE)
    debugger, output = session(f"b {path}:6", f"b {path}:12", "c", "p y.tolist()", "c")
    debugger.run(code, {"__name__": "__main__"})
    assert stops_of(output.getvalue(), path) == ["(1)<module>()", "(6)eager()"], output.getvalue()
    assert "(Pdb) [2.0, 2.0]" in output.getvalue() and capsys.readouterr().out == "0 1\n"


@pytest.mark.filterwarnings("ignore:compiled functions run in eager")
def test_breakpoint_called_in_a_compiled_function(users_program, monkeypatch, capsys):
    """It breaks the graph: the debugger has the variables of that place, and steps on through the rest in eager."""
    path, code = users_program(STOPS)
    debugger, output = session("p y.tolist()", f"tbreak {path}:7", "c", "n", "p z.tolist()", "c")
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))
    try:
        exec(code, {"__name__": "__main__"})
    finally:
        sys.settrace(None)
    assert stops_of(output.getvalue(), path) == ["(6)stops()", "(7)stops()", "(8)stops()"], output.getvalue()
    assert "(Pdb) [2.0, 2.0]" in output.getvalue() and "(Pdb) [4.0, 4.0]" in output.getvalue()
    assert capsys.readouterr().out == "[4.0, 4.0] 1\n"


# -- commands ----------------------------------------------------------------------------------------------------------


def started(*command: str, **env: str) -> subprocess.Popen[str]:
    """Starts a separate process with pipes."""
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return subprocess.Popen([*command], text=True, env={**os.environ, **env}, **pipes)


def test_coverage_run(users_program, tmp_path):
    path, _ = users_program(SOURCE)
    data = str(tmp_path / "data")
    run = (sys.executable, "-m", "coverage", "run", f"--data-file={data}", f"--include={path}", "--rcfile=", path)
    with started(*run, COVERAGE_CORE="ctrace") as process:
        output, errors = process.communicate(timeout=200)
    assert (process.returncode, output) == (0, "0 1\n"), errors
    assert "RuntimeWarning: compiled functions run in eager here: a tracer" in errors
    measured = coverage.Coverage(data_file=data, config_file=False)
    measured.load()
    check_missed(measured, path)


def test_debugger_of_the_command_line(users_program):
    path, _ = users_program(SOURCE)
    with started(sys.executable, "-m", "pdb", path) as process:
        output, errors = process.communicate("b 6\nb 12\nc\np y.tolist()\nc\nq\n", timeout=200)
    assert stops_of(output, path)[:2] == ["(1)<module>()", "(6)eager()"], output + errors
    assert "(Pdb) [2.0, 2.0]" in output and "0 1\nThe program finished" in output


WAITS = """import torch
import dynamo_lite as dl

def inner(x):
    return x.sin()

def step(x):
    y = inner(x)
    return y * 2

def backend(gm, example_inputs):
    def runs(*inputs):
        print("here", flush=True)
        input()
        return gm.forward(*inputs)
    return runs

dl.compile(step, backend=backend)(torch.ones(2))
"""


def test_py_spy_shows_the_line_of_the_graph(users_program):
    """The profile shows the function at the line at which its graph ends, and below it the code of the backend."""
    beside = shutil.which("py-spy", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if beside is None:
        pytest.skip("py-spy isn't installed")
    path, _ = users_program(WAITS)
    with started(sys.executable, path) as process:
        assert process.stdout is not None and process.stdout.readline() == "here\n"
        dumped = subprocess.run([beside, "dump", "--pid", str(process.pid)], capture_output=True, text=True)
        process.communicate("\n", timeout=60)
    if "ermission" in dumped.stderr or "not permitted" in dumped.stderr:
        pytest.skip("py-spy may not look into other processes here")
    name = os.path.basename(path)
    shown = [line.strip() for line in dumped.stdout.splitlines() if f"({name}:" in line]
    assert shown == [f"backend.<locals>.runs ({name}:14)", f"step ({name}:9)", f"<module> ({name}:18)"], dumped
