"""Takes the addresses of the site and of its repository from pyproject.toml, where they have some. MkDocs calls
`on_config`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def on_config(config: Any, project: Path = _PROJECT) -> Any:
    """MkDocs' event: with a repository, each page links to its source and to "edit this page"."""
    addresses = tomllib.loads(project.read_text())["project"].get("urls", {})
    config.site_url = addresses.get("Documentation")
    config.repo_url = addresses.get("Repository")
    if config.repo_url is not None:  # MkDocs has derived these from no address
        config.repo_name, config.edit_uri = "Repository", "edit/main/docs/"
    return config
