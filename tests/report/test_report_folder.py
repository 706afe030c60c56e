"""The folder in which a report is written, even if the program changes its directory."""

from __future__ import annotations

import os

import torch

import dynamo_lite as dl
from processes import run_program


def test_a_program_that_changes_its_directory(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with dl.report("out") as page:
        os.chdir("elsewhere")
        dl.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert str(page) == os.path.join("out", "index.html")
    assert (tmp_path / page).exists() and not list((tmp_path / "elsewhere").iterdir())


def test_totals_of_one(tmp_path):
    with dl.report(tmp_path) as page:
        dl.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    text = page.read_text()
    assert "<b>1</b>graph</div>" in text and "<b>1</b>operator</div>" in text and "<b>0</b>graph breaks</div>" in text


def test_a_whole_run_that_changes_its_directory(tmp_path):
    program = "import dynamo_lite, os; os.chdir('/')"
    done = run_program(f"import os; os.chdir({str(tmp_path)!r}); os.environ['DYNAMO_LITE_REPORT'] = 'out'; {program}")
    assert done.returncode == 0 and done.stderr == "" and (tmp_path / "out" / "index.html").exists()
