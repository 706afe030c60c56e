"""Backends by name. Other packages bring theirs as entry points of the group ``dynamo_lite.backends``."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..exc import InvalidBackend

Backend = Callable[..., Callable[..., Any]]
GROUP = "dynamo_lite.backends"

_BACKENDS: dict[str, Backend] = {}


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def register_backend(fn: Backend | None = None, *, name: str | None = None) -> Any:
    """Register ``fn(gm: torch.fx.GraphModule, example_inputs: list) -> callable`` under a name, by default its own.

    Also a decorator, with or without arguments. Returns ``fn``.

    Raises:
        TypeError: ``fn`` can't be called.
        ValueError: another backend has the name already.
    """
    if fn is None:
        return functools.partial(register_backend, name=name)
    if not callable(fn):
        raise TypeError(f"a backend is a callable, not {type(fn).__name__}")
    key = name or fn.__name__
    if _BACKENDS.get(key, fn) is not fn:
        raise ValueError(f"there is a backend {key!r} already; pass another name")
    _BACKENDS[key] = fn
    return fn


def list_backends() -> list[str]:
    """The names there are, sorted."""
    return sorted({*_BACKENDS, *_entry_points()})


def lookup_backend(backend: str | Backend) -> Backend:
    """The backend of that name; a callable is one itself.

    Raises:
        InvalidBackend: no such name; the message lists those there are, nearest first.
        TypeError: neither a name nor a callable.
    """
    if callable(backend):
        return backend
    if not isinstance(backend, str):
        raise TypeError(f"backend is a name or a callable, not {type(backend).__name__}")
    found = _BACKENDS.get(backend)
    if found is None:
        point = _entry_points().get(backend)
        if point is None:
            raise InvalidBackend(f"no backend {backend!r}; there are: {', '.join(_nearest_first(backend))}")
        found = register_backend(point.load(), name=backend)
    return found


def _nearest_first(name: str) -> list[str]:
    return sorted(list_backends(), key=lambda each: -difflib.SequenceMatcher(None, name, each).ratio())
