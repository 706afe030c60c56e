"""Backends by name: registered ones, and entry points of other packages in our group or in torch's."""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from types import FunctionType
from typing import Any, TypeVar, overload

import torch.fx

from dynamo_lite.exc import InvalidBackend
from dynamo_lite.insight.suggestions import suggestion

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]
"""Compiles a graph, given fake or real examples of its inputs, to a callable of these inputs that returns a tuple."""
B = TypeVar("B", bound=Backend)

GROUPS = ("torch_dynamo_backends", "dynamo_lite.backends")
"""Groups of entry points. A name in a later one takes precedence."""

_BACKENDS: dict[str, Backend] = {}
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for group in GROUPS for point in entry_points(group=group)}


@overload
def register_backend(fn: B, *, name: str | None = None) -> B: ...
@overload
def register_backend(fn: None = None, *, name: str | None = None) -> Callable[[B], B]: ...
def register_backend(fn: object = None, *, name: str | None = None) -> Any:
    """Register ``fn(gm: torch.fx.GraphModule, example_inputs: list) -> callable``. Returns ``fn``; without it, returns
    a decorator.

    Args:
        fn: the backend. Its result takes the graph's inputs and returns a tuple or list of the graph's outputs.
        name: the name for ``dl.compile(backend=...)``; by default ``fn.__name__``.

    Raises:
        TypeError: ``fn`` is not callable, or ``name`` no string.
        ValueError: another backend has that name, or it is empty. The same function, defined again (in a notebook's
            cell that is run again), takes the place of the old one.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> @dl.register_backend(name="printing")
        ... def printing(gm: torch.fx.GraphModule, example_inputs: list) -> object:
        ...     print([node.name for node in gm.graph.nodes if node.op == "call_function"])
        ...     return gm.forward
        >>> dl.compile(lambda x: x + 1, backend="printing")(torch.zeros(2))
        ['add']
        tensor([1., 1.])
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"a backend's name must be a string, not {type(name).__name__} ({name!r})")
    if name == "":
        raise ValueError("a backend's name must not be empty")
    if fn is None:
        return functools.partial(register_backend, name=name)
    if not callable(fn):
        raise TypeError(f"a backend must be a callable, not {type(fn).__name__} ({fn!r})")
    key = name or name_of(fn)
    if not _is_same_definition(_BACKENDS.get(key, fn), fn):
        raise ValueError(f"there is already a backend {key!r}: pass another name")
    _BACKENDS[key] = fn
    return fn


def _is_same_definition(old: Backend, new: Backend) -> bool:
    """Whether both are one object, or come from one definition that was run twice. The latter is assumed of functions
    at a module's top level that have the same name. In ``__main__``, where a notebook runs its cells, it is assumed of
    any functions of the same name, and of instances of classes of the same name."""
    if old is new:
        return True
    names = [each if isinstance(each, FunctionType) else type(each) for each in (old, new)]
    places = [(type(each), each.__module__, each.__qualname__) for each in names]
    is_at_top = isinstance(old, FunctionType) and "<" not in old.__qualname__
    return places[0] == places[1] and (is_at_top or places[0][1] == "__main__")


def name_of(backend: str | Backend) -> str:
    """The name of a backend in messages."""
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def list_backends() -> list[str]:
    """The names of all backends, sorted."""
    return sorted({*_BACKENDS, *_entry_points()})


def lookup_backend(backend: str | Backend) -> Backend:
    """The backend of that name. A callable is returned as it is.

    Raises:
        InvalidBackend: no backend has that name (the message has the most similar name, and lists them), or the package
            that provides it can't be imported.
        TypeError: ``backend`` is neither a name nor a callable of two arguments.
    """
    if callable(backend):
        _check_takes_a_graph(backend)
        return backend
    if not isinstance(backend, str):
        raise TypeError(f"backend must be a name or a callable, not {type(backend).__name__}")
    registered = _BACKENDS.get(backend)
    if registered is not None:
        return registered
    point = _entry_points().get(backend)
    if point is None:
        raise InvalidBackend(f"no backend {backend!r}; {suggestion(backend, list_backends())}")
    return register_backend(_load(point), name=backend)


def _check_takes_a_graph(backend: Backend) -> None:
    with contextlib.suppress(ValueError):  # it has no signature
        signature = inspect.signature(backend)
        positional = [each for each in signature.parameters.values() if each.kind in _POSITIONAL]
        is_open = any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in positional)
        if len(positional) < 2 and not is_open:
            called = f"{name_of(backend)}{signature}"
            raise TypeError(f"a backend is called with a graph and example inputs, and {called} doesn't take both")


def _load(point: EntryPoint) -> Backend:
    try:
        loaded: Any = point.load()
    except (ImportError, AttributeError) as error:
        raise InvalidBackend(f"backend {point.name!r} is {point.value} of a package that can't load it") from error
    if not callable(loaded):
        raise InvalidBackend(
            f"backend {point.name!r} is {point.value}, of type {type(loaded).__name__}, which can't be called"
        )
    return loaded


def configured(backend: str | Backend, mode: str | None, options: dict[str, Any] | None) -> Backend:
    """The backend with a mode or options bound. A method ``configure(mode, options)`` of the backend checks them and
    returns the backend to call; a backend without one gets them as keyword arguments with each graph.

    Raises:
        ValueError: both are given, or the mode or option doesn't exist.
        TypeError: the backend takes none, or they have a wrong type.
    """
    plain = lookup_backend(backend)
    if mode is not None and options is not None:
        raise ValueError("pass mode or options, not both: a mode is a set of options")
    if mode is not None and not isinstance(mode, str):
        raise TypeError(f"mode must be a name, not {type(mode).__name__}")
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dict of names to values, not {type(options).__name__}")
    if options:  # the guard filter isn't the backend's
        options = {name: value for name, value in options.items() if name != "guard_filter_fn"}
    if mode in (None, "default") and not options:
        return plain
    configure = getattr(plain, "configure", None)
    if configure is not None:
        return configure(mode, options)
    name, value = ("mode", mode) if options is None else ("options", options)
    with contextlib.suppress(ValueError):  # it has no signature
        try:
            inspect.signature(plain).bind_partial(**{name: value})
        except TypeError as error:
            raise TypeError(f"backend {name_of(backend)!r} takes no {name}: {name}={value!r}") from error
    return functools.partial(plain, **{name: value})


def by_similarity(name: str, names: Iterable[str]) -> list[str]:
    """Names sorted by similarity to ``name``, the most similar first, for error messages."""
    return sorted(names, key=lambda each: -difflib.SequenceMatcher(None, name, each).ratio())
