"""The README and the pages of `docs/`: their Python blocks run as pasted, and print what they say they print.

Each block ```` ```python ```` is run by itself, in a namespace of its own. A ```` ```text title="output" ```` after it
is what it prints (`...` stands for any text); ```` title="output of CPython 3.11" ```` is checked on that version. A
block that can't be run here says why: ```` ```python title="not run: needs two GPUs" ````.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import logging
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from sybil import Document, Example, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

import dynamo_lite as dl
from dynamo_lite.insight.break_reason import TABLE

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "mkdocs.yml").exists())
PACKAGE = Path(dl.__file__).parent  # in the tree, or where a wheel put it
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((PACKAGE / "insight" / "break_examples").glob("*.md"))
_CHECKER = doctest.OutputChecker()
_VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"


@contextlib.contextmanager
def _as_pasted() -> Iterator[None]:
    """Runs in an empty folder, as a process that has compiled nothing and logs nothing. Restores everything."""
    levels = {each: logging.getLogger(f"dynamo_lite.{each}").level for each in dl.logs.SUBJECTS}
    dl.reset()
    dl.counters.reset()
    torch.manual_seed(0)
    with mock.patch.object(logging.getLogger(), "handlers", []), mock.patch.dict(TABLE), warnings.catch_warnings():
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            yield
    for name, level in levels.items():
        logging.getLogger(f"dynamo_lite.{name}").setLevel(level)


class Blocks:
    """Finds the blocks of one page; what one prints is kept for the next, which may say what it was."""

    def __init__(self) -> None:
        self._lexer = FencedCodeBlockLexer(r"\S.*")
        self._run = PythonEvaluator()
        self._printed: str | None = None

    def __call__(self, document: Document) -> Iterator[Region]:
        for region in self._lexer(document):
            info, region.parsed = region.lexemes["language"], region.lexemes["source"]
            if info == "python":
                region.evaluator = self._evaluate
                yield region
            elif info in ('text title="output"', f'text title="output of CPython {_VERSION}"'):
                region.evaluator = self._compare
                yield region
            elif info.startswith("python") and not re.fullmatch(
                r'python title="[\w/]+\.py"', info
            ):  # files of commands
                assert info.startswith('python title="not run: '), f"{document.path}: no reason why {info!r} isn't run"

    def _evaluate(self, example: Example) -> None:
        shown = io.StringIO()
        example.namespace.clear()
        example.namespace["__name__"] = "__main__"
        with _as_pasted(), contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            self._run(example)
        self._printed = shown.getvalue()

    def _compare(self, example: Example) -> str | None:
        assert self._printed is not None, f"{example.path}:{example.line}: output of no block"
        printed, self._printed = self._printed, None
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if _CHECKER.check_output(example.parsed, printed, flags):
            return None
        return f"{example.path}:{example.line} says\n\n{example.parsed}\nand it is\n\n{printed}"


def _prose(text: str) -> str:
    """Returns a page's text without the code blocks."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_as_pasted(page: Path) -> None:
    for example in Document.parse(str(page), Blocks()).examples():
        example.evaluate()


def test_readme_is_short_and_points_at_what_is_there() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") < 150
    links = [each for each in re.findall(r"\]\(([^)#]+)", _prose(text)) if "://" not in each]
    assert links and [each for each in links if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_on_pages_exist(page: Path) -> None:
    """Every `dl.name` that a page has outside of its blocks is a public name."""
    for path in set(re.findall(r"\bdl\.([a-zA-Z_]+(?:\.[a-zA-Z_]+)*)", _prose(page.read_text()))):
        found: Any = dl
        for name in path.split("."):
            assert hasattr(found, name), f"dl.{path}"
            found = getattr(found, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_on_pages_exist(page: Path) -> None:
    """Every path of the repository that a page has is a file or folder of it."""
    named = re.findall(r"(?<![\w/.])((?:dynamo_lite|csrc|tests|benchmarks|examples|docs)/[\w/.-]*\w)", page.read_text())
    roots = {"dynamo_lite": PACKAGE.parent}
    assert [each for each in named if not (roots.get(each.partition("/")[0], ROOT) / each).exists()] == []


def test_the_architecture_has_every_room() -> None:
    tables = "\n".join(re.findall(r"^\|.*", (ROOT / "docs" / "architecture.md").read_text(), flags=re.MULTILINE))
    native = ROOT / "csrc"
    rooms = {path.parent.name for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE}
    rooms |= {path.parent.name for path in native.rglob("*.h") if path.parent != native}
    assert {room for room in rooms if f"`{room}`" not in tables} == set()


def _break_pages() -> Any:
    spec = importlib.util.spec_from_file_location("break_pages", PACKAGE / "insight" / "break_pages.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


def test_each_reason_has_a_page() -> None:
    """The documentation's hook parses the table as source text, and must find the rows that Python finds."""
    hook = _break_pages()
    rows = hook.reasons()
    assert [each.code for each in rows] == sorted(TABLE)
    for each in rows:
        kind = TABLE[each.code]
        said = (
            kind.__name__,
            kind.happened,
            kind.fix,
            kind.numbers_matter,
            list(kind.fields),
        )
        assert said == (each.name, each.happened, each.fix, each.numbers_matter, list(each.fields))
        assert each.family in hook.families()
    assert hook.pages().keys() == {"breaks/index.md", *(f"breaks/{each.code}.md" for each in rows)}


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_examples_of_breaks(page: Path) -> None:
    """A program that breaks for this reason prints its output. The fixed program is one graph."""
    assert page.stem in TABLE
    blocks = re.findall(r"^```(.*?)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    assert [info for info, _ in blocks] == ["python", 'text title="output"', "python"]
    assert f"{page.stem}: " in blocks[1][1]
    assert "fullgraph=True" in blocks[2][1] or "dl.export(" in blocks[2][1]
    assert page.read_text() in _break_pages().pages()[f"breaks/{page.stem}.md"]
