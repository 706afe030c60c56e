"""Polyfills of ``copy``, for objects of the user's classes."""

from __future__ import annotations

import copy
import copyreg
from typing import Any


def copy_object(x: object) -> object:
    copier = getattr(type(x), "__copy__", None)
    if copier is not None:
        return copier(x)
    return _create_copy(x, None)


def deepcopy_object(x: object, memo: dict[int, Any]) -> object:
    copier = getattr(x, "__deepcopy__", None)
    if copier is not None:
        return copier(memo)
    return _create_copy(x, memo)


def _create_copy(x: object, memo: dict[int, Any] | None) -> object:
    reductor = copyreg.dispatch_table.get(type(x))
    reduced = x.__reduce_ex__(4) if reductor is None else reductor(x)
    if isinstance(reduced, str):
        return x
    return copy._reconstruct(x, memo, *reduced)  # type: ignore[attr-defined]
