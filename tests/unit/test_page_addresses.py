"""Links to the documentation's pages, where pyproject.toml says where they are published."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
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


@pytest.mark.parametrize(
    ("urls", "wanted"),
    [
        ("", (None, None, None)),
        (
            f'[project.urls]\nDocumentation = "{SITE}"\nRepository = "https://example.org/repository"\n',
            (SITE, "https://example.org/repository", "edit/main/docs/"),
        ),
    ],
)
def test_site_takes_its_addresses_from_the_project(tmp_path, urls, wanted):
    spec = importlib.util.spec_from_file_location("addresses", HOOK)
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    project = tmp_path / "pyproject.toml"
    project.write_text(f'[project]\nname = "dynamo_lite"\n{urls}')
    config = hook.on_config(SimpleNamespace(edit_uri=None), project)
    assert (config.site_url, config.repo_url, config.edit_uri) == wanted
