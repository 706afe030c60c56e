"""What is compiled under the same settings: who may share it, and what outlives who compiled it."""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any

from dynamo_lite import _C, config
from dynamo_lite.shapes.policy import ShapePolicy


class Family:
    """What owners of the same settings have in common: each runs what another has compiled, where its guards hold, and
    knows which numbers another has met.

    A layer that is compiled for each of its instances is compiled once. So is a function that a program compiles anew
    in each call: of a ``lasting`` family, what holds no part of a model stays with the function's code.
    """

    def __init__(self, backend: Any, dynamic: bool | None, lasting: bool = False) -> None:
        self.backend = backend
        """Kept alive: families are told apart by its identity."""
        self.shapes = ShapePolicy(dynamic)
        self.lasting = lasting
        self._keeper: _C.Owner | None = None

    def keeper(self, code: CodeType) -> _C.Owner | None:
        """The owner for what stays with the code; None where there is no room left, or nothing is to stay."""
        if not self.lasting:
            return None
        if self._keeper is None:
            self._keeper = _C.Owner(None, "kept", self)
        return self._keeper if len(self._keeper.entries(code)) < config.recompile_limit else None

    def forget(self) -> None:
        self.shapes.forget()
        if self._keeper is not None:
            self._keeper.reset()


_FAMILIES: weakref.WeakValueDictionary[Any, Family] = weakref.WeakValueDictionary()
_LASTING: set[Family] = set()


def family_of(
    backend: Any, mode: str | None, options: dict[str, Any] | None, fullgraph: bool, dynamic: bool | None, lasting: bool
) -> Family:
    """The family of those settings, under the configuration as it is."""
    key = (id(backend), mode, tuple((options or {}).items()), fullgraph, dynamic, config.values(), lasting)
    try:
        family = _FAMILIES.setdefault(key, Family(backend, dynamic, lasting))
    except TypeError:  # an option can't be hashed
        return Family(backend, dynamic)
    if lasting:
        _LASTING.add(family)
    return family


def forget_kept() -> None:
    """Drop what has outlived who compiled it."""
    for family in list(_LASTING):
        family.forget()
