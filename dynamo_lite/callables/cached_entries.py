"""``compiled.entries()``: the cached entries of a compiled function or module, in readable form."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from torch.fx import GraphModule
from torch.utils.weak import WeakIdKeyDictionary

from dynamo_lite import _C
from dynamo_lite.insight.code_text import as_text
from dynamo_lite.insight.counters import counted
from dynamo_lite.insight.program_files import line_place
from dynamo_lite.records.code_origin import is_module_call
from dynamo_lite.resume.graph_break import interrupted_codes
from dynamo_lite.resume.resume_code import original_position

from .compiled_module import CompiledModule

_GRAPHS = WeakIdKeyDictionary()
"""New code -> a weak reference to its graph."""


def note_graph(code: CodeType, graph: GraphModule | None) -> None:
    """Remember which graph an entry's code calls, while both exist."""
    if graph is not None:
        _GRAPHS[code] = weakref.ref(graph)


@dataclass(frozen=True, repr=False)
class CachedEntry:
    """Code that was compiled for one function, and the guards under which it runs in the function's place."""

    function: str
    """The qualified name. For a continuation after a graph break, the function's; for a module, that of ``forward``."""
    filename: str
    lineno: int
    hits: int
    """Calls that ran it since it was compiled."""
    guards: list[str]
    graph: GraphModule | None
    """None if the entry has no graph, or its backend didn't keep it."""
    code: CodeType

    def code_text(self) -> str:
        """Its bytecode, with descriptions of its constants."""
        return as_text(self.code)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        of_graph = "no graph" if self.graph is None else f"{len(self.graph.graph.nodes)} nodes"
        place = f"{self.function} ({line_place(self.filename, self.lineno)})"
        return f"{place}: {counted(self.hits, 'hit')}, {len(self.guards)} guards, {of_graph}"


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
    return [_cached_entry(code, entry) for code in owner.codes() for entry in owner.entries(code)]


def _cached_entry(code: CodeType, entry: _C.Entry) -> CachedEntry:
    checks = entry.tree.checks()
    forward = _forward(code, checks)
    guards = [str(reason) for reason, _, _ in checks]
    graph = _GRAPHS.get(entry.code)
    of_program = (each for each in interrupted_codes(code) if not is_module_call(each.co_filename))
    written = forward.__code__ if forward is not None else next(of_program, original_position(code, 0)[0])
    place = written.co_qualname, written.co_filename, written.co_firstlineno
    return CachedEntry(*place, entry.hits, guards, None if graph is None else graph(), entry.code)


def _forward(code: CodeType, checks: list[tuple[Any, str, Any]]) -> FunctionType | None:
    """For the call of a module: ``forward`` of the module's class, which the guards name. None for other code."""
    if not is_module_call(code.co_filename):
        return None
    classes = (kind for reason, check, kind in checks if check == "type" and reason.place == "self")
    forward = getattr(next(classes, None), "forward", None)
    return forward if isinstance(forward, FunctionType) else None


class _EntriesMethod:
    """``entries`` of a compiled function or module; if the original has an attribute of that name, the original's."""

    def __get__(self, compiled: Any, cls: type) -> Any:
        if compiled is None:
            return self
        wrapped = compiled._dl_original if isinstance(compiled, CompiledModule) else compiled.__wrapped__
        own = getattr(wrapped, "entries", self)
        return functools.partial(entries, compiled) if own is self else own


for _cls in (_C.Wrapped, CompiledModule):
    _cls.entries = _EntriesMethod()  # type: ignore[union-attr]
