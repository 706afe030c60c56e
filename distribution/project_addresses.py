"""The web address of the repository that this tree comes from, for the site's links and a wheel's metadata.

    python distribution/project_addresses.py

The tree names no repository, so a fork's links lead to the fork. Where `[project.urls]` of pyproject.toml gives none,
it is the origin of the clone, or the repository whose workflow runs in this tree. As a program, this writes the
addresses into `[project.urls]`, and into the README's links, which lead nowhere on a package index otherwise. The
release workflow runs it before it builds.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# A user, and with it a token, isn't part of the address; neither is the port of ssh.
_HOST = r"(?P<host>[\w.-]+\.[A-Za-z]+"
_PATH = r"(?P<path>[\w.~-]+(?:/[\w.~-]+)+)/?"
_REMOTES = [
    re.compile(rf"https://(?:[^@/]*@)?{_HOST}(?::\d+)?)/{_PATH}"),
    re.compile(rf"git@{_HOST}):{_PATH}"),
    re.compile(rf"ssh://git@{_HOST})(?::\d+)?/{_PATH}"),
]


def project_urls(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`[project.urls]`; what it lacks of `Repository`, as found, and of `Documentation`, as DOCUMENTATION_SITE says."""
    found = {
        "Repository": _origin(root) or _of_workflow(root, environment),
        "Documentation": environment.get("DOCUMENTATION_SITE"),
    }
    return {label: address for label, address in found.items() if address} | _written(root)


def _written(root: Path) -> dict[str, str]:
    return tomllib.loads((root / "pyproject.toml").read_text())["project"].get("urls", {})


def web_address(remote: str) -> str | None:
    """The page of a remote that a forge has: https, or ssh as the user git. None for any other, such as a path."""
    for pattern in _REMOTES:
        found = pattern.fullmatch(remote)
        if found is not None:
            return f"https://{found['host']}/{found['path'].removesuffix('.git')}"
    return None


def _origin(root: Path) -> str | None:
    if not (root / ".git").exists():  # the repository around an unpacked archive is another
        return None
    command = ["git", "-C", str(root), "remote", "get-url", "origin"]
    try:
        remote = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:  # there is no git
        return None
    return None if remote.returncode else web_address(remote.stdout.strip())


def _of_workflow(root: Path, environment: Mapping[str, str]) -> str | None:
    """Of a workflow of GitHub's, if this tree is what it checked out: it may build others'."""
    if "GITHUB_WORKSPACE" not in environment or Path(environment["GITHUB_WORKSPACE"]).resolve() != root.resolve():
        return None
    return f"{environment['GITHUB_SERVER_URL']}/{environment['GITHUB_REPOSITORY']}"


def write(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Writes the addresses into pyproject.toml and README.md; returns them."""
    urls, written = project_urls(root, environment), _written(root)
    project, readme = root / "pyproject.toml", root / "README.md"
    lines = "".join(f'{label} = "{address}"\n' for label, address in urls.items() if label not in written)
    text = project.read_text()
    if lines:
        text = text if written else f"{text}\n[project.urls]\n"
        project.write_text(text.replace("[project.urls]\n", f"[project.urls]\n{lines}"))
    if "Repository" in urls:
        linked = re.sub(r"\]\((docs/[^)]+)\)", rf"]({urls['Repository']}/blob/HEAD/\1)", readme.read_text())
        readme.write_text(linked)
    return urls


if __name__ == "__main__":
    for label, address in write().items():
        print(f"{label}: {address}")
