"""What is compiled under the same settings: by whom it may be shared."""

from __future__ import annotations

import weakref
from typing import Any

from . import config
from .shapes import ShapePolicy


class Family:
    """What owners of the same settings have in common: each runs what another has compiled, where its guards hold, and
    knows which numbers another has met.

    A layer that is compiled for each of its instances is compiled once.
    """

    def __init__(self, backend: Any, dynamic: bool | None) -> None:
        self.backend = backend
        """Kept alive: families are told apart by its identity."""
        self.shapes = ShapePolicy(dynamic)


_FAMILIES: weakref.WeakValueDictionary[Any, Family] = weakref.WeakValueDictionary()


def family_of(
    backend: Any, mode: str | None, options: dict[str, Any] | None, fullgraph: bool, dynamic: bool | None
) -> Family:
    """The family of those settings, under the configuration as it is."""
    key = (id(backend), mode, tuple((options or {}).items()), fullgraph, dynamic, config.values())
    try:
        return _FAMILIES.setdefault(key, Family(backend, dynamic))
    except TypeError:  # an option can't be hashed
        return Family(backend, dynamic)
