"""Adds the pages `breaks/<code>.md`, one a reason for a graph break, to the site. MkDocs calls `on_files`.

`dynamo_lite/insight/break_pages.py` makes them. It is loaded by its path: building the site needs no torch.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

_SOURCE = Path(__file__).resolve().parents[2] / "dynamo_lite" / "insight" / "break_pages.py"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("break_pages", _SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_files(files: Any, *, config: Any) -> Any:
    """MkDocs' event: add the pages to those that lie in `docs/`."""
    from mkdocs.structure.files import File

    for path, text in _loaded().pages().items():
        files.append(File.generated(config, path, content=text))
    return files
