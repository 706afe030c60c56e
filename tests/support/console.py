"""Commands that a user types, run in processes that have imported torch already."""

from __future__ import annotations

import shlex
from pathlib import Path

from processes import run_program

_PROGRAM = """
import os, runpy, sys
os.chdir({folder!r})
sys.dont_write_bytecode = True
os.environ["COLUMNS"] = "80"
for name in ("CI", "BUILD_NUMBER", "PYTEST_ADDOPTS", "PY_COLORS", "FORCE_COLOR"):  # by which pytest prints otherwise
    os.environ.pop(name, None)
sys.path[:0] = [{folder!r}]
sys.argv = {argv!r}
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
_MODULES = {"dynamo-lite": ["dynamo_lite"], "pytest": ["pytest", "-p", "pytest_dynamo_lite", "-p", "no:xdist"]}


def run_command(command: str, folder: Path) -> tuple[int, str]:
    """Run ``dynamo-lite …``, ``pytest …``, ``python -m …`` or ``cat FILE`` in a folder: its exit status, and what it
    printed as a terminal shows it."""
    words = shlex.split(command)
    if words[0] == "cat":
        return 0, (folder / words[1]).read_text()
    if words[:2] == ["python", "-m"]:
        words = words[2:]
    argv = [*_MODULES.get(words[0], [words[0]]), *words[1:]]
    ended = run_program(_PROGRAM.format(folder=str(folder), argv=argv))
    return ended.returncode, ended.stdout + ended.stderr
