"""Pages `breaks/<code>.md`, one a reason for a graph break, made from `dynamo_lite/reasons.py` when the site is built.

MkDocs calls `on_files`. `reasons` is the only function that knows how the package writes its reasons down: today a
dataclass each, whose fields are put in angle brackets here.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

_SOURCE = Path(__file__).resolve().parents[2] / "dynamo_lite" / "reasons.py"


class Reason(NamedTuple):
    """What a page says."""

    code: str
    about: str
    what: str
    hint: str


def reasons(source: Path = _SOURCE) -> list[Reason]:
    """All reasons, by code. The file is loaded by itself, so that building the site needs no torch."""
    spec = importlib.util.spec_from_file_location("_dynamo_lite_reasons", source)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    base = module.BreakReason
    classes = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, base)]
    return sorted(_reason(each) for each in classes if each is not base)


def _reason(cls: Any) -> Reason:
    given = {each.name: f"<{each.name}>" for each in dataclasses.fields(cls) if each.default is dataclasses.MISSING}
    example = cls(**given)
    about = cls.__dict__.get("__doc__") or ""
    is_generated = about.startswith(f"{cls.__name__}(")  # by dataclass, where the class has none of its own
    code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
    return Reason(code, "" if is_generated else about.strip(), example.what(), example.hint())


def pages() -> dict[str, str]:
    """The text of each page, by its path in the site."""
    found = reasons()
    rows = "\n".join(f"| [{each.code}]({each.code}.md) | `{each.what}` |" for each in found)
    index = (
        "# Reasons for breaks\n\n**What can end a graph, and what can I do about it?** A page for each reason. "
        "Words in angle brackets are filled in.\nSee [graph breaks](../graph-breaks.md) for what a break costs.\n\n"
        f"| reason | message |\n|---|---|\n{rows}\n"
    )
    return {"breaks/index.md": index, **{f"breaks/{each.code}.md": _page(each) for each in found}}


def _page(reason: Reason) -> str:
    about = f"{reason.about}\n\n" if reason.about else ""
    return (
        f"# {reason.code}\n\n**Why did the graph end here?**\n\n```text\n{reason.what}\n```\n\n{about}"
        f"## What to do\n\n{reason.hint[0].upper()}{reason.hint[1:]}.\n\n"
        "[All reasons](index.md) · [Graph breaks](../graph-breaks.md)\n"
    )


def on_files(files: Any, *, config: Any) -> Any:
    """MkDocs' event: add the pages to those that lie in `docs/`."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files
