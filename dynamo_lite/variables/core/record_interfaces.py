"""Interfaces of an attempt's records, as trackers use them. The classes are in the room `attempt`, above trackers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import torch.fx
from torch.autograd.graph import Node

from dynamo_lite.sources.source import Source

Tracker = TypeVar("Tracker")
"""The class of trackers, which is declared above: what it is handed has these records."""
Shown = TypeVar("Shown", covariant=True)
"""The same, for an interface that only returns trackers."""
Given = TypeVar("Given", contravariant=True)
"""The same, for an interface that only takes trackers."""
_Kind = TypeVar("_Kind")


class Globals(Protocol[Tracker]):
    """The globals of a module: the dict, overlaid with the writes of the trace."""

    namespace: dict[str, Any]
    source: Source
    writes: dict[str, Tracker | None]
    assigned_names: frozenset[str] | None
    """Those that functions of the module assign to, once that was asked for."""

    def load(self, name: str) -> Tracker | None: ...
    def store(self, name: str, value: Tracker | None) -> None: ...


class BodyEffects(Protocol[Shown]):
    """The effects of a function that an operator runs."""

    @property
    def mutated(self) -> Iterable[Shown]: ...
    @property
    def globals(self) -> Iterable[Shown]: ...


class CachedResults(Protocol[Tracker]):
    """Results of cached functions that a trace computed itself."""

    @property
    def in_cached_call(self) -> bool: ...
    def cached_call(self) -> AbstractContextManager[None]: ...
    def known(self, key: Hashable) -> Tracker | None: ...
    def add(self, key: Hashable, result: Tracker, created: list[Tracker], step: int) -> None: ...


class Effects(Protocol[Tracker]):
    """The side effects of the traced program, which generated code replays after the graph."""

    @property
    def count(self) -> int: ...
    @property
    def empty(self) -> bool: ...
    @property
    def in_body(self) -> bool: ...
    @property
    def written(self) -> Mapping[Tracker, object]: ...
    @property
    def written_globals(self) -> Mapping[tuple[Globals[Tracker], str], Tracker | None]: ...
    @property
    def changed_trackers(self) -> list[Tracker]: ...
    @property
    def noted(self) -> Sequence[object]: ...
    @property
    def shared_results(self) -> CachedResults[Tracker]: ...
    def mutate(self, tracker: Tracker) -> None: ...
    def decorate(self, tracker: Tracker) -> None: ...
    def write_global(self, scope: Globals[Tracker], name: str, value: Tracker | None) -> None: ...
    def wrote_global(self, namespace: dict[str, Any]) -> bool: ...
    def note(self, event: Effect) -> None: ...
    def note_call(self, function: Callable[..., object], *args: Tracker) -> None: ...
    def fix(self, trackers: Iterable[Tracker]) -> None: ...
    def last(self, tracker: Tracker) -> int: ...
    def restate(self, tracker: Tracker) -> None: ...
    def forbidden(
        self, outside: set[Tracker], runs_once: bool = False
    ) -> AbstractContextManager[BodyEffects[Tracker]]: ...


class Effect(Protocol):
    """An event that generated code repeats after the graph."""

    def replay(self, plan: Any) -> None: ...


class Provenance(Protocol[Given]):
    """The steps at which values were created that generated code may be unable to create."""

    step: int
    hooked_views: dict[torch.fx.Node, int]

    def created(self, value: Given, step: int | None = None) -> None: ...
    def created_with(self, value: Given, other: Given) -> None: ...
    def created_generator(self, generator: Given) -> None: ...
    def created_leaf(self, tensor: Given) -> None: ...
    def shared(self, value: Given) -> None: ...
    def discard(self, value: Given) -> bool: ...
    def all_of(self, kind: type[_Kind]) -> list[_Kind]: ...
    def is_created_leaf(self, tensor: object) -> bool: ...
    def was_raised(self, error: Given) -> bool: ...
    def recorded(self, node: Node) -> None: ...
    def freed(self, nodes: Iterable[Node]) -> None: ...


class Addresses(Protocol):
    """Which keys of the trace may be addresses."""

    as_numbers: bool

    def note(self, key: Any) -> None: ...


class EnteredContext(Protocol):
    """A context manager that is entered for real while tracing."""

    def leave(self) -> None:
        """Restore the state that entering it changed."""
        ...


class TorchState(Protocol):
    """torch's thread state while tracing."""

    contexts: list[EnteredContext]
    catch_warnings_blocks: list[Any]
    initial_grad_mode: bool
    began_in_inference_mode: bool
    has_subclasses: bool
    is_torch_function_off: bool

    @property
    def calls_torch_function(self) -> bool: ...
    @property
    def filters_at_graph_call(self) -> Sequence[tuple[Any, ...]]: ...
    def without_torch_function(self) -> AbstractContextManager[None]: ...
    def note_class(self, cls: type) -> None: ...


class Clearable(Protocol):
    """Drops the references to user objects that it holds."""

    def clear(self) -> None: ...
