"""Polyfills of ``copy``, for objects of the user's classes."""

from __future__ import annotations

import copy
import copyreg
from typing import Any


def copy_object(x: Any) -> Any:
    copier = getattr(type(x), "__copy__", None)
    if copier is not None:
        return copier(x)
    return _made(x, None)


def deepcopy_object(x: Any, memo: dict[int, Any]) -> Any:
    copier = getattr(x, "__deepcopy__", None)
    if copier is not None:
        return copier(memo)
    return _made(x, memo)


def _made(x: Any, memo: Any) -> Any:
    reductor = copyreg.dispatch_table.get(type(x))
    reduced = x.__reduce_ex__(4) if reductor is None else reductor(x)
    if isinstance(reduced, str):
        return x
    return copy._reconstruct(x, memo, *reduced)  # type: ignore[attr-defined]
