"""Links to the documentation's pages and to the repository, where their addresses are known."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shutil
import subprocess
from email.message import Message
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.check.findings import Finding, Result
from dynamo_lite.check.machine_formats import as_sarif
from dynamo_lite.insight import page_addresses

HOOK = Path(__file__).resolve().parents[2] / "docs" / "hooks" / "addresses.py"
SITE = "https://docs.example.org/dynamo_lite"
PAGE = f"{SITE}/breaks/DL0301/"


@pytest.fixture
def publish(monkeypatch):
    def to(*addresses: str) -> None:
        metadata = Message()
        for each in addresses:
            metadata["Project-URL"] = each
        monkeypatch.setattr(importlib.metadata, "metadata", lambda name: metadata)
        page_addresses._site.cache_clear()

    yield to
    monkeypatch.undo()
    page_addresses._site.cache_clear()


def branch(x):
    return x + 1 if x.sum() > 0 else x


def message() -> str:
    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(branch, backend="eager", fullgraph=True)(torch.ones(2))
    return str(caught.value)


def rule() -> dict[str, object]:
    result = Result("net:net", 1, [], [Finding("DL0301", "it branches", "don't")], [])
    return json.loads(as_sarif([result]))["runs"][0]["tool"]["driver"]["rules"][0]


def test_errors_and_results_link_to_pages(publish):
    publish("Repository, https://example.org/repository", f"Documentation, {SITE}/")
    assert message().endswith(f"\nMore: dynamo-lite explain DL0301, or {PAGE}")
    assert rule()["helpUri"] == PAGE
    assert PAGE in dl.explain(branch)(torch.ones(2))._repr_html_()


def test_rules_of_sarif_carry_their_pages(publish):
    """The place where SARIF is shown has neither the package nor, maybe, a site."""
    publish()
    shown = json.loads(as_sarif([Result("net:net", 1, [], [Finding("DL0101", "dl.graph_break() was called", "")], [])]))
    found = shown["runs"][0]["tool"]["driver"]["rules"]
    page = found[0]["help"].pop("markdown")
    assert page.startswith(
        "# DL0101: User graph break\n\n**Why did the graph end here?**\n\n> DL0101: dl.graph_break(&lt;"
    )
    assert "## Example\n\n```python\nimport torch\n" in page
    assert found == [
        {
            "id": "DL0101",
            "shortDescription": {"text": "dl.graph_break(<message>) was called"},
            "name": "UserGraphBreak",
            "help": {"text": "remove the call where one graph is wanted"},
        }
    ]


def test_reports_link_to_pages(publish, tmp_path):
    pytest.importorskip("jinja2")
    publish(f"Documentation, {SITE}")
    with dl.report(tmp_path):
        dl.compile(branch, backend="eager")(torch.ones(2))
    assert f'<a href="{PAGE}">' in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("addresses", [(), ("Repository, https://example.org/repository",)])
def test_nothing_links_to_pages_that_are_not_published(publish, addresses):
    publish(*addresses)
    assert message().endswith("\nMore: dynamo-lite explain DL0301")
    assert "helpUri" not in rule()


def test_tree_that_is_not_installed_has_no_pages(publish, monkeypatch):
    def fail(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    publish()
    monkeypatch.setattr(importlib.metadata, "metadata", fail)
    assert page_addresses.code_page("DL0301") is None


REPOSITORY = "https://example.org/owner/repository"


@pytest.mark.parametrize(
    ("urls", "origin", "wanted"),
    [
        ("", None, (None, None, None)),
        ("", "/srv/git/repository", (None, None, None)),
        ("", "git@example.org:owner/repository.git", (None, REPOSITORY, "edit/main/docs/")),
        (
            f'[project.urls]\nDocumentation = "{SITE}"\nRepository = "https://example.org/repository"\n',
            "git@example.org:owner/repository.git",
            (SITE, "https://example.org/repository", "edit/main/docs/"),
        ),
        (
            "",
            "https://gitlab.example.org/group/owner/repository",
            (None, "https://gitlab.example.org/group/owner/repository", "-/edit/main/docs/"),
        ),
    ],
)
def test_site_takes_its_addresses_from_the_project_or_its_clone(tmp_path, urls, origin, wanted):
    spec = importlib.util.spec_from_file_location("addresses", HOOK)
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "dynamo_lite"\n{urls}')
    if origin is not None:
        if shutil.which("git") is None:
            pytest.skip("needs git")
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
        subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", origin], check=True)
    config = hook.on_config(SimpleNamespace(edit_uri=None), tmp_path)
    assert (config.site_url, config.repo_url, config.edit_uri) == wanted
