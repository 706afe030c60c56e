"""``dynamo-lite run``: runs a program with torch.compile taken over, and prints one line about the capture."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import dynamo_lite as dl
from dynamo_lite.__main__ import main
from processes import run_program

torch_dynamo = pytest.importorskip("torch._dynamo")

LIBRARY = """
import torch

@torch.compile(dynamic=True, backend="aot_eager", fullgraph=True)
def scaled(x):
    return x * 3
"""
SCRIPT = """
import sys
import torch
from a_library import scaled

@torch.compile(backend="eager")
def program(x):
    y = x + 1
    print("in the middle of", __name__, *sys.argv[1:])
    return y * 2

print(program(torch.ones(2)).tolist(), scaled(torch.ones(2)).tolist())
if "fail" in sys.argv:
    sys.exit(3)
"""
TEST = """
import torch

def test_program():
    import a_script
    assert a_script.program(torch.ones(3)).tolist() == [4.0] * 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "a_library.py").write_text(LIBRARY)
    (tmp_path / "a_script.py").write_text(SCRIPT)
    (tmp_path / "test_it.py").write_text(TEST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    torch_dynamo.reset()
    torch_dynamo.utils.counters.clear()
    yield tmp_path
    for name in ("a_library", "a_script"):
        sys.modules.pop(name, None)


SAID = """\
dynamo_lite: 2 functions, 3 graphs, 1 break, 0 recompilations
  DL0202 at FOLDER/a_script.py:9: print() has a side effect that can't be captured
  DYNAMO_LITE_REPORT=folder writes a page of all of it; dynamo-lite explain CODE says what to do
"""
PRINTED = "in the middle of __main__ -v b\n[4.0, 4.0] [3.0, 3.0]\n"


@pytest.mark.parametrize("program", [["a_script.py"], ["-m", "a_script"]], ids=["script", "module"])
def test_scripts_and_modules(program, folder, capsys):
    assert main(["run", *program, "-v", "b"]) == 0
    printed = capsys.readouterr()
    assert printed.out == PRINTED and printed.err == SAID.replace("FOLDER", str(folder))
    assert torch_dynamo.utils.counters["stats"]["unique_graphs"] == 0


def test_the_exit_status_is_the_programs(folder, capsys):
    with pytest.raises(SystemExit) as left:
        main(["run", str(folder / "a_script.py"), "fail"])
    assert left.value.code == 3 and capsys.readouterr().err == SAID.replace("FOLDER", str(folder))


def test_an_exception_is_printed_with_the_frames_of_the_program(folder, capsys):
    (folder / "crash.py").write_text("from a_library import scaled\n\nscaled(None)\n")
    assert main(["run", "crash.py"]) == 1
    printed = capsys.readouterr().err
    assert "TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'\n" in printed
    shown = re.findall(r'File "(.*?)"', printed)
    assert shown[0].endswith("crash.py") and shown[-1].endswith("a_library.py")
    assert not [each for each in shown if each.startswith(os.path.dirname(dl.__file__)) or "runpy" in each]


def test_a_deep_recursion_is_printed(folder, capsys):
    (folder / "deep.py").write_text("def f(n):\n    return f(n + 1)\n\nf(0)\n")
    assert main(["run", "deep.py"]) == 1
    assert "\nRecursionError: maximum recursion depth exceeded" in capsys.readouterr().err


def test_an_error_about_arguments_ends_at_the_programs_line(folder, capsys):
    (folder / "wrong.py").write_text("import dynamo_lite as dl\n\ndl.compile(3)\n")
    assert main(["run", "wrong.py"]) == 1
    shown = re.findall(r'File "(.*?)"', capsys.readouterr().err)
    assert shown[-1] == str(folder / "wrong.py")


def test_programs_that_compile_nothing_and_that_are_not_there(folder, capsys):
    (folder / "plain.py").write_text("print(1)")
    assert main(["run", "plain.py"]) == 0
    assert "nothing that torch.compile returned was called" in capsys.readouterr().err
    assert main(["run", "nowhere.py"]) == 2
    assert "'nowhere.py' is neither a file nor a command" in capsys.readouterr().err
    assert dl.counters.graphs == 0


@pytest.mark.full
def test_pytest_as_a_command(folder):
    done = run_program(
        f"""import os, sys
os.chdir({str(folder)!r})
sys.path.insert(0, {str(Path(dl.__file__).parents[1])!r})
from dynamo_lite.__main__ import main
sys.exit(main(["run", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]))"""
    )
    assert done.returncode == 0 and "1 passed" in done.stdout
    assert "dynamo_lite: 2 functions, 5 graphs, 1 break, 2 recompilations" in done.stderr
