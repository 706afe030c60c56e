"""Polyfills of ``inspect``."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

_static_mro, _dict_of_class = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__
_NO_WRAPPERS: Any = type if sys.version_info >= (3, 13) else ()


def unwrap(func: object, *, stop: Callable[[Any], object] | None = None) -> Any:
    """``inspect.unwrap``, without its limit on the length of chains, which no trace reaches."""
    first, seen = func, [func]
    while not isinstance(func, _NO_WRAPPERS) and hasattr(func, "__wrapped__"):
        if stop is not None and stop(func):
            return func
        func = func.__wrapped__
        if any(each is func for each in seen):
            raise ValueError(f"wrapper loop when unwrapping {first!r}")
        seen.append(func)
    return func


def shadowed_dict(klass: type) -> Any:
    """``inspect._shadowed_dict``, without its cache, whose keys are weak references to classes."""
    for entry in _static_mro(klass):
        namespace = _dict_of_class(entry)
        if "__dict__" in namespace:
            found = namespace["__dict__"]
            if type(found) is not types.GetSetDescriptorType or found.__name__ != "__dict__":
                return found
            if found.__objclass__ is not entry and found.__objclass__ is not object:  # from 3.15 on all share one
                return found
    return inspect._sentinel  # type: ignore[attr-defined]


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {inspect.unwrap: unwrap}
if hasattr(inspect, "_shadowed_dict_from_weakref_mro_tuple"):
    TABLE[inspect._shadowed_dict] = shadowed_dict  # type: ignore[attr-defined]
