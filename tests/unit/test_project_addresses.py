"""The repository that a tree comes from: its web address, and what a wheel that is built from it says."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "distribution" / "project_addresses.py"

pytestmark = pytest.mark.fast
_spec = importlib.util.spec_from_file_location("project_addresses", PROGRAM)
project_addresses = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(project_addresses)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://example.org/owner/name", "https://example.org/owner/name"),
        ("https://example.org/owner/name.git", "https://example.org/owner/name"),
        ("https://example.org/owner/name.git/", "https://example.org/owner/name"),
        ("https://git.example.org:8443/owner/name.js", "https://git.example.org:8443/owner/name.js"),
        ("https://user:token@example.org/owner/name.git", "https://example.org/owner/name"),
        ("https://token@example.org/group/owner/name", "https://example.org/group/owner/name"),
        ("git@example.org:owner/name.git", "https://example.org/owner/name"),
        ("ssh://git@example.org/owner/name.git", "https://example.org/owner/name"),
        ("ssh://git@example.org:2222/owner/name.git", "https://example.org/owner/name"),
        ("/srv/git/owner/name.git", None),
        ("../owner/name", None),
        ("file:///srv/git/owner/name", None),
        ("http://127.0.0.1:8080/git/owner/name", None),
        ("https://127.0.0.1:8080/git/owner/name", None),
        ("https://localhost/owner/name", None),
        ("alias:owner/name", None),
        ("me@server.example.org:owner/name", None),
        ("https://example.org/name", None),
        ("https://example.org/owner/name?token=1", None),
    ],
)
def test_web_address_of_a_remote(remote, address):
    assert project_addresses.web_address(remote) == address


def tree(folder, urls="", origin=None):
    (folder / "pyproject.toml").write_text(f'[project]\nname = "dynamo_lite"\n{urls}')
    if origin is not None:
        if shutil.which("git") is None:
            pytest.skip("needs git")
        subprocess.run(["git", "init", "-q", folder], check=True)
        subprocess.run(["git", "-C", folder, "remote", "add", "origin", origin], check=True)
    return folder


def workflow(folder):
    return {
        "GITHUB_SERVER_URL": "https://forge.example.org",
        "GITHUB_REPOSITORY": "owner/name",
        "GITHUB_WORKSPACE": str(folder),
    }


def test_written_address_comes_first_then_the_clones_then_the_workflows(tmp_path):
    found = project_addresses.project_urls
    assert found(tree(tmp_path), {}) == {}
    assert found(tmp_path, workflow(tmp_path)) == {"Repository": "https://forge.example.org/owner/name"}
    tree(tmp_path, origin="git@example.org:a/b.git")
    assert found(tmp_path, workflow(tmp_path)) == {"Repository": "https://example.org/a/b"}
    tree(tmp_path, '[project.urls]\nRepository = "https://example.org/c/d"\n')
    assert found(tmp_path, workflow(tmp_path)) == {"Repository": "https://example.org/c/d"}


def test_workflow_of_another_repository_is_not_this_one(tmp_path):
    (tmp_path / "unpacked").mkdir()
    assert project_addresses.project_urls(tree(tmp_path / "unpacked"), workflow(tmp_path)) == {}


def test_clone_around_an_unpacked_archive_is_another(tmp_path):
    tree(tmp_path, origin="git@example.org:a/b.git")
    (tmp_path / "unpacked").mkdir()
    assert project_addresses.project_urls(tree(tmp_path / "unpacked"), {}) == {}


def test_tree_without_git_has_no_address(tmp_path, monkeypatch):
    tree(tmp_path, origin="git@example.org:a/b.git")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert project_addresses.project_urls(tmp_path, {}) == {}


def test_addresses_are_added_to_those_that_are_written(tmp_path):
    tree(tmp_path, '[project.urls]\nHomepage = "https://example.org"\n\n[tool.some]\nkey = 1\n')
    (tmp_path / "README.md").write_text("See [install](docs/install.md), [a page](https://example.org).")
    project_addresses.write(tmp_path, workflow(tmp_path) | {"DOCUMENTATION_SITE": "https://docs.example.org"})
    assert (tmp_path / "pyproject.toml").read_text() == (
        '[project]\nname = "dynamo_lite"\n'
        '[project.urls]\nRepository = "https://forge.example.org/owner/name"\n'
        'Documentation = "https://docs.example.org"\nHomepage = "https://example.org"\n\n[tool.some]\nkey = 1\n'
    )
    assert (tmp_path / "README.md").read_text() == (
        "See [install](https://forge.example.org/owner/name/blob/HEAD/docs/install.md), [a page](https://example.org)."
    )


def test_tree_without_an_address_is_unchanged(tmp_path):
    before = tree(tmp_path).joinpath("pyproject.toml").read_text()
    (tmp_path / "README.md").write_text("[install](docs/install.md)")
    assert project_addresses.write(tmp_path, {"DOCUMENTATION_SITE": ""}) == {}
    assert (tmp_path / "pyproject.toml").read_text() == before
    assert (tmp_path / "README.md").read_text() == "[install](docs/install.md)"


@pytest.mark.skipif(not (ROOT / "dynamo_lite").exists(), reason="the package's sources are not beside the tests")
def test_wheel_of_the_release_workflow_names_the_repository(tmp_path):
    pytest.importorskip("scikit_build_core")
    for name in ("pyproject.toml", "README.md", "LICENSE", "CMakeLists.txt", "dynamo_lite/runtime/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "distribution", tmp_path / "distribution")
    program = tmp_path / "distribution" / "project_addresses.py"
    environment = os.environ | workflow(tmp_path) | {"DOCUMENTATION_SITE": "https://docs.example.org"}
    printed = subprocess.check_output([sys.executable, program], env=environment, text=True)
    assert printed == "Repository: https://forge.example.org/owner/name\nDocumentation: https://docs.example.org\n"
    build = "import scikit_build_core.build as b; b.prepare_metadata_for_build_wheel('made')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True)
    (metadata,) = (tmp_path / "made").glob("*.dist-info/METADATA")
    said = Parser().parsestr(metadata.read_text())
    assert said.get_all("Project-URL") == [
        "Repository, https://forge.example.org/owner/name",
        "Documentation, https://docs.example.org",
    ]
    assert "(docs/" not in said.get_payload()
    steps = (ROOT / ".github" / "workflows" / "wheels.yml").read_text() if (ROOT / ".github").exists() else ""
    assert not steps or steps.index("distribution/project_addresses.py") < steps.index("make wheels")
