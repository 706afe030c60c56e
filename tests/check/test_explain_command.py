"""`dynamo-lite explain CODE` prints a reason's page offline. `--version` and the bare command print what is
installed.
"""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.__main__ import main
from dynamo_lite.insight import break_pages
from dynamo_lite.insight.break_reason import TABLE


def test_page_of_a_reason_has_cause_fix_and_example(capsys):
    assert main(["explain", "dl0202"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("# DL0202: Output call\n\n**Why did the graph end here?**\n\n> DL0202: <callee>() has")
    assert "## What to do\n\nMove it out of the compiled function" in printed
    assert "def f(x):\n    y = torch.relu(x)\n" in printed
    assert "index.md" not in printed and "&lt;" not in printed


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("DL0101", "dl.graph_break(<message>) was called"),
        ("DL0417", "<call> can't be traced with a class that overrides __torch_function__: <because>"),
        ("DL0552", "from <module> import <name>: the module has no such name, so CPython raises an ImportError"),
    ],
)
def test_terminal_and_pipe_name_the_fields_of_a_message(capsys, monkeypatch, code, message):
    pytest.importorskip("rich")
    assert main(["explain", code]) == 0
    assert f"> {code}: {message}\n" in capsys.readouterr().out.replace("`", "")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["explain", code]) == 0
    assert f"▌ {code}: {message} " in re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)


def test_pages_have_no_escapes_in_code():
    for path, text in break_pages.pages().items():
        assert not [code for code in re.findall(r"`([^`\n]+)`", text) if "&lt;" in code or r"\_" in code], path


def test_closed_pipe_prints_no_traceback(tmp_path):
    """The command is ``dynamo-lite explain | head``."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "dynamo_lite", "explain", "DL0202"]
    process = subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    os.close(reading)
    assert process.communicate()[1] == "" and process.returncode == 128 + signal.SIGPIPE


def test_every_code_has_a_page_and_is_listed(capsys):
    for code in TABLE:
        assert main(["explain", code]) == 0
        assert capsys.readouterr().out.startswith(f"# {code}: ")
    assert main(["explain"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == sorted(TABLE)


def test_an_unknown_code_is_an_error(capsys):
    assert main(["explain", "DL9999"]) == 2
    assert capsys.readouterr() == ("", "dynamo-lite: error: no code 'DL9999'; `dynamo-lite explain` lists them\n")


def test_versions(capsys):
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    versions = f"dynamo_lite {dl.__version__}, torch {torch.__version__}, Python {platform.python_version()}\n"
    assert left.value.code == 0 and capsys.readouterr().out == versions


def test_the_bare_command_shows_its_help(capsys):
    assert main([]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("usage: dynamo-lite [-h] [--version] COMMAND ...\n")
    assert all(f"\n    {command} " in printed for command in ("check", "run", "explain"))
