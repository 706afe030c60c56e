"""The README's figures and the plot are those of the runs that are kept, and medians."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "mkdocs.yml").exists())


@pytest.fixture(scope="module")
def readme() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_readme", ROOT / "benchmarks" / "readme.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_has_the_table_of_the_runs(readme):
    runs, text = json.loads(readme.KEPT.read_text()), (ROOT / "README.md").read_text()
    assert readme.table(runs) in text and readme.readme(text, runs) == text
    gpt2 = [f"{readme.median(runs, f'gpt2.{tool}'):.0f}" for tool in ("ours", "torch")]
    assert f"A 12-layer GPT-2: {gpt2[0]} µs against {gpt2[1]}." in text


def test_the_plot_is_of_the_runs(readme):
    assert readme.PLOT.read_text() == readme.plot(json.loads(readme.KEPT.read_text()))


def test_the_table_has_medians(readme):
    runs = json.loads(readme.KEPT.read_text()) | {"gpt2.ours": [10.0, 30.0, 20.0], "gpt2.torch": [400.0, 100.0]}
    assert "| added to a call of GPT-2, 12 layers | 20 µs | 250 µs | `python benchmarks/overhead.py` |" in readme.table(
        runs
    )


def test_numbers_have_three_digits(readme):
    assert [readme.shown(each) for each in (0.4, 2.54, 35.5, 171.6, 79.0, 0.125)] == [
        "0.4",
        "2.54",
        "35.5",
        "172",
        "79",
        "0.125",
    ]
