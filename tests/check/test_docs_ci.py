"""`docs/ci.md`: its files and commands, run in order in one folder, print the output on the page."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from console import run_command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "ci.md"
_BLOCKS = re.compile(
    r'^```(?:python title="(?P<file>[\w/]+\.py)"|(?P<console>console))\n(?P<text>.*?)^```', re.M | re.S
)


@pytest.mark.full
def test_commands_of_the_page_print_its_output(tmp_path: Path) -> None:
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS
    shown, status, count = [], 0, 0
    for block in _BLOCKS.finditer(PAGE.read_text()):
        if block["file"]:
            (tmp_path / block["file"]).write_text(block["text"])
            continue
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block["text"], re.M):
            if command == "echo $?":
                printed = f"{status}\n"
            else:
                status, printed = run_command(command, tmp_path)
            count += 1
            if not checker.check_output(expected, printed, flags):
                shown.append(f"$ {command}\n{printed}")
    assert count > 8 and shown == [], "\n".join(shown)
