"""What is cached for a compiled function or module, for people: ``compiled.entries()``."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from torch.fx import GraphModule
from torch.utils.weak import WeakIdKeyDictionary

from dynamo_lite import _C
from dynamo_lite.insight.code_text import as_text
from dynamo_lite.resume.graph_break import in_program_names, original_position

from .compiled_module import CompiledModule

_GRAPHS = WeakIdKeyDictionary()
"""New code -> a weak reference to its graph."""


def note_graph(code: CodeType, graph: GraphModule | None) -> None:
    """Remember, as long as both live, which graph an entry's code calls."""
    if graph is not None:
        _GRAPHS[code] = weakref.ref(graph)


@dataclass(frozen=True)
class CachedEntry:
    """Code that was compiled for one function, and the guards under which it runs in the function's place."""

    function: str
    """Its qualified name; of the rest of a function after a graph break, the function's."""
    filename: str
    lineno: int
    hits: int
    """Calls that ran it since it was compiled."""
    guards: list[str]
    graph: GraphModule | None
    """None: the entry has none, or its backend didn't keep it."""
    code: CodeType

    def code_text(self) -> str:
        """Its bytecode, with what its constants are."""
        return as_text(self.code)

    def __str__(self) -> str:
        of_graph = "no graph" if self.graph is None else f"{len(self.graph.graph.nodes)} nodes"
        place = f"{self.function} ({self.filename}:{self.lineno})"
        return f"{place}: {self.hits} hits, {len(self.guards)} guards, {of_graph}"


def entries(compiled: Callable[..., Any]) -> list[CachedEntry]:
    """What is cached for a compiled function or module: for each of its frames, the entry that was used last first.

    Raises:
        TypeError: ``compiled`` is nothing that `compile` returned.

    Example:
        >>> import torch, dynamo_lite as dl
        >>> compiled = dl.compile(lambda x: x + 1, backend="eager")
        >>> y = compiled(torch.zeros(2)), compiled(torch.zeros(2))
        >>> [entry.hits for entry in dl.entries(compiled)]
        [2]
    """
    wrapped: Any = compiled._dl_call if isinstance(compiled, CompiledModule) else compiled
    if type(wrapped) is not _C.Wrapped:
        raise TypeError(f"dl.entries takes what dl.compile returned, not {type(compiled).__name__} ({compiled!r})")
    owner = wrapped.owner
    return [_as_seen(code, entry) for code in owner.codes() for entry in owner.entries(code)]


def _as_seen(code: CodeType, entry: _C.Entry) -> CachedEntry:
    original = original_position(code, 0)[0]
    guards = [in_program_names(str(reason), code) for reason, _, _ in entry.tree.checks()]
    graph = _GRAPHS.get(entry.code)
    place = original.co_qualname, original.co_filename, original.co_firstlineno
    return CachedEntry(*place, entry.hits, guards, None if graph is None else graph(), entry.code)


class _EntriesMethod:
    """``entries`` of a compiled function or module, unless what it wraps has an attribute of that name itself."""

    def __get__(self, compiled: Any, cls: type) -> Any:
        if compiled is None:
            return self
        wrapped = compiled._dl_original if isinstance(compiled, CompiledModule) else compiled.__wrapped__
        own = getattr(wrapped, "entries", self)
        return functools.partial(entries, compiled) if own is self else own


for _cls in (_C.Wrapped, CompiledModule):
    _cls.entries = _EntriesMethod()  # type: ignore[union-attr]
