"""Gives the site its addresses, where they are known: `distribution/project_addresses.py` says where from. MkDocs calls
`on_config`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]


def _loaded() -> ModuleType:
    source = _ROOT / "distribution" / "project_addresses.py"
    spec = importlib.util.spec_from_file_location("project_addresses", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_config(config: Any, root: Path = _ROOT) -> Any:
    """MkDocs' event: with a repository, each page links to its source and to "edit this page"."""
    addresses = _loaded().project_urls(root)
    config.site_url = addresses.get("Documentation")
    config.repo_url = addresses.get("Repository")
    if config.repo_url is not None:  # MkDocs has derived these from no address
        is_gitlab = "gitlab" in config.repo_url.split("/")[2]
        config.repo_name, config.edit_uri = "Repository", f"{'-/' if is_gitlab else ''}edit/main/docs/"
    return config
