"""Backends by name. Other packages bring theirs as entry points, of our own group or of torch's."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dynamo_lite.exc import InvalidBackend

Backend = Callable[..., Callable[..., Any]]
GROUPS = ("torch_dynamo_backends", "dynamo_lite.backends")
"""Those that are later win."""

_BACKENDS: dict[str, Backend] = {}


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for group in GROUPS for point in entry_points(group=group)}


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
    key = name or name_of(fn)
    if _BACKENDS.get(key, fn) is not fn:
        raise ValueError(f"there is a backend {key!r} already; pass another name")
    _BACKENDS[key] = fn
    return fn


def name_of(backend: str | Backend) -> str:
    """What a backend is called in messages."""
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def list_backends() -> list[str]:
    """The names there are, sorted."""
    return sorted({*_BACKENDS, *_entry_points()})


def lookup_backend(backend: str | Backend) -> Backend:
    """The backend of that name; a callable is one itself.

    Raises:
        InvalidBackend: no such name; the message lists those there are, nearest first. Or another package's can't be
            loaded.
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
            raise InvalidBackend(f"no backend {backend!r}; there are: {', '.join(nearest(backend, list_backends()))}")
        found = register_backend(_load(point), name=backend)
    return found


def _load(point: EntryPoint) -> Backend:
    try:
        found = point.load()
    except (ImportError, AttributeError) as error:
        raise InvalidBackend(f"backend {point.name!r} is {point.value} of a package that can't load it") from error
    if not callable(found):
        raise InvalidBackend(
            f"backend {point.name!r} is {point.value}, of type {type(found).__name__}, which can't be called"
        )
    return found


def configured(backend: str | Backend, mode: str | None, options: dict[str, Any] | None) -> Backend:
    """The backend with a mode or options. One that has a method ``configure(mode, options)`` checks them at once and
    gives the backend to call; others get those that are given as keyword arguments with each graph.

    Raises:
        ValueError: both are given, or it knows no such mode or option.
        TypeError: it takes none, or they are of a wrong type.
    """
    found = lookup_backend(backend)
    if mode is not None and options is not None:
        raise ValueError("pass mode or options, not both: a mode is a set of options")
    if mode is not None and not isinstance(mode, str):
        raise TypeError(f"mode is a name, not {type(mode).__name__}")
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options is a dict of names to values, not {type(options).__name__}")
    if mode in (None, "default") and not options:
        return found
    configure = getattr(found, "configure", None)
    if configure is not None:
        made: Backend = configure(mode, options)
        return made
    name, value = ("mode", mode) if options is None else ("options", options)
    if not _takes(found, name):
        raise TypeError(f"backend {name_of(backend)!r} takes no {name}: {name}={value!r}")
    return functools.partial(found, **{name: value})


def _takes(fn: Backend, name: str) -> bool:
    """Whether a callable has such a keyword argument, or doesn't say."""
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(
        each.kind is each.VAR_KEYWORD
        or each.name == name
        and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        for each in parameters
    )


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """The names there are, those that look like this one first."""
    return sorted(names, key=lambda each: -difflib.SequenceMatcher(None, name, each).ratio())
