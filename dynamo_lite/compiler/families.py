"""Owners with the same settings share entries, and some entries outlive the owner that compiled them."""

from __future__ import annotations

import weakref
from types import CodeType

import torch

from dynamo_lite import _C, config
from dynamo_lite.callables.frame_shim import is_global
from dynamo_lite.shapes.policy import ShapePolicy
from dynamo_lite.sources.identity import identity

from .one_at_a_time import TranslationLocks


class Family:
    """The owners of the same settings. They share entries, and what is known of numbers that change between calls.

    A layer that is compiled once for each of its instances is translated once. So is what a program calls
    ``dl.compile`` on in each call: the entries of a ``lasting`` family stay with the code, and those that hold a part
    of a model until that is deallocated.
    """

    def __init__(self, backend: object, dynamic: bool | None, lasting: bool = False) -> None:
        self.backend = backend
        """Kept alive, as its id is in the family's key."""
        self.shapes = ShapePolicy(dynamic)
        self.locks = TranslationLocks()
        self.lasting = lasting
        self._keepers: dict[int, tuple[_C.Owner, object]] = {}
        """By the identity of a part of a model, with the weak reference to it; by that of None for all others."""

    def keeper(self, code: CodeType, part: torch.nn.Module | torch.nn.Parameter | None) -> _C.Owner | None:
        """The owner of entries that stay with the code until this part of a model is deallocated, if it is given. None
        if the family keeps none, or has reached the limit."""
        if not self.lasting:
            return None
        key = identity(part)
        if key not in self._keepers:
            self._keepers[key] = _C.Owner(None, "kept", self), self._watch(part)
        keeper, _ = self._keepers[key]
        return keeper if len(keeper.entries(code)) < config.recompile_limit else None

    def _watch(self, part: torch.nn.Module | torch.nn.Parameter | None) -> object:
        """A weak reference to the part, whose end drops its keeper."""
        key, keepers = identity(part), self._keepers

        def end(reference: object) -> None:
            keepers.pop(key, None)

        return None if part is None else weakref.ref(part, end)

    def forget(self) -> None:
        self.shapes.forget()
        for keeper, _ in list(self._keepers.values()):
            keeper.reset()


_FAMILIES: weakref.WeakValueDictionary[tuple[object, ...], Family] = weakref.WeakValueDictionary()
_LASTING: set[Family] = set()


def family_of(
    backend: object,
    mode: str | None,
    options: dict[str, object] | None,
    fullgraph: bool,
    dynamic: bool | None,
    regions: str,
    is_named: bool,
) -> Family:
    """The family of these settings under the current `config`. ``is_named``: the backend is a registered one."""
    lasting = is_named or is_global(backend)  # another one may keep anything alive
    key = (id(backend), mode, tuple((options or {}).items()), fullgraph, dynamic, regions, config.values(), lasting)
    try:
        family = _FAMILIES.setdefault(key, Family(backend, dynamic, lasting))
    except TypeError:  # an option can't be hashed
        return Family(backend, dynamic)
    if lasting:
        _LASTING.add(family)
    return family


def forget_kept() -> None:
    """Drop the entries that outlived their owners."""
    for family in list(_LASTING):
        family.forget()
