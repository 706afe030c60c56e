"""The example repository: its workflow passes, and fails after the commit that broke the graph as its authors saw."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from console import run_command

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ci"
WORKFLOW = (EXAMPLE / ".github" / "workflows" / "fullgraph.yml").read_text()
STEPS = re.findall(r"- run: ((?!pip).*)", WORKFLOW)


def _masked(text: str) -> str:
    return re.sub(r"in \d+\.\d+s", "in 1.00s", text)


@pytest.mark.full
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_workflow_passes_and_the_commit_breaks_it(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(EXAMPLE, repository)
    assert len(STEPS) == 3
    assert [run_command(step, repository)[0] for step in STEPS] == [0, 0, 0]
    patch = EXAMPLE / "warn-of-empty-texts.patch"
    subprocess.run(["git", "apply", str(patch)], cwd=repository, check=True, env={**os.environ, "GIT_DIR": os.devnull})
    for at, step in enumerate(STEPS, 1):
        status, printed = run_command(step, repository)
        seen = EXAMPLE / "seen" / f"step{at}.txt"
        shown = f"$ {step}\n{_masked(printed)}"
        if "DL_WRITE_SEEN" in os.environ:
            seen.parent.mkdir(exist_ok=True)
            seen.write_text(shown)
        assert status == 1 and shown == seen.read_text()
