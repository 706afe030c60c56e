"""The addresses of the documentation's pages, once it is published: what the distribution's metadata says.

`Documentation` in pyproject.toml's `[project.urls]` is the site's address. Without it nothing links to a page, and
``dynamo-lite explain`` prints it.
"""

from __future__ import annotations

import functools
import importlib.metadata


@functools.cache
def _site() -> str | None:
    try:
        addresses = importlib.metadata.metadata("dynamo_lite").get_all("Project-URL") or []
    except importlib.metadata.PackageNotFoundError:  # the tree is imported without being installed
        return None
    by_label = dict(each.split(", ", 1) for each in addresses)
    site = by_label.get("Documentation")
    return None if site is None else site.rstrip("/")


def code_page(code: str) -> str | None:
    """The address of the page of a reason for a graph break, such as DL0301; None where none is published."""
    site = _site()
    return None if site is None else f"{site}/breaks/{code}/"


def where_to_read(code: str) -> str:
    """Where the page of a code is to be read, in an error's last line."""
    address = code_page(code)
    return f"dynamo-lite explain {code}" if address is None else f"dynamo-lite explain {code}, or {address}"
