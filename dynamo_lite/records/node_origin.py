"""Where a graph's node comes from: the program's lines and modules, as text that is made when somebody reads it.

Backends, profilers and quantizers read ``stack_trace``, ``nn_module_stack`` and ``source_fn_stack`` in a node's
``meta``, in the form that torch.compile gives them. Most graphs are compiled without anybody reading them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from traceback import FrameSummary, StackSummary
from typing import Any, NamedTuple

import torch

from dynamo_lite.bytecode.instructions import Positions
from dynamo_lite.insight.program_files import OURS

from .source import Source


class ModuleCall(NamedTuple):
    """The call of a module that a frame is the ``forward`` of. Text: it keeps no module alive."""

    key: str
    """The same for all calls of the module."""
    path: str
    """How the program reaches it: ``L['self'].layers.0``."""
    cls: type

    @staticmethod
    def of(value: object, source: Source) -> ModuleCall | None:
        is_module = issubclass(type(value), torch.nn.Module)
        return ModuleCall(str(id(value)), module_path(source), type(value)) if is_module else None


class NodeOrigin(NamedTuple):
    """A frame of the program, and the instruction that is executing in it. Text and numbers: it keeps no code alive."""

    caller: NodeOrigin | None
    filename: str
    function: str
    positions: Positions | None
    module: ModuleCall | None

    def chain(self) -> Iterator[NodeOrigin]:
        """This frame and its callers, outermost first."""
        if self.caller is not None:
            yield from self.caller.chain()
        yield self

    def only_calls_module(self) -> bool:
        """Whether there is nothing of the program's so far, only what calls a module's ``forward``."""
        is_outermost = self.caller is None or self.caller.only_calls_module()
        return is_outermost and self.filename == torch.nn.modules.module.__file__

    def summary(self) -> FrameSummary:
        line, end_line, column, end_column = self.positions or (None,) * 4
        ends: dict[str, Any] = {"end_lineno": end_line, "colno": column, "end_colno": end_column}
        return FrameSummary(self.filename, line, self.function.rpartition(".")[2], lookup_line=False, **ends)


_LEFT_OUT = (os.path.dirname(torch.nn.modules.__file__) + os.sep, OURS)
"""Files that users don't think of: the inside of torch's modules, and what replaces functions in C."""


def module_path(source: Source) -> str:
    """The path of a module, as torch.compile writes it: a root, then the names under which its parents have it."""
    names: list[str] = []
    table = source.parent
    while source.kind == "dict_item" and table is not None and table.arg == "_modules" and table.kind == "dict_item":
        owner = table.parent.parent if table.parent is not None else None  # of the instance's dict, that of the table
        if owner is None:
            break
        names.append(source.arg)
        source, table = owner, owner.parent
    root = f"L[{source.arg!r}]" if source.kind == "local" else str(source)
    return ".".join((root, *reversed(names)))


class NodeMeta(dict[str, Any]):
    """The ``meta`` of a node. It looks like a dict that has what is made from the origin, which is made when needed."""

    __slots__ = ("origin", "_source_fn", "_is_filled")

    def __init__(self, origin: NodeOrigin, name: str, target: Any) -> None:
        self.origin = origin
        self._is_filled = False
        self._source_fn = name, target

    def _fill(self) -> None:
        if self._is_filled:
            return
        self._is_filled = True
        chain = list(self.origin.chain())
        own = frames_of(self)
        modules = [frame.module for frame in chain if frame.module is not None]
        name, target = self._source_fn
        if modules and modules[-1].cls.__module__.startswith("torch.nn.modules."):
            target = modules[-1].cls
        found = {
            "stack_trace": "".join(StackSummary.from_list([frame.summary() for frame in own]).format()),
            "source_fn_stack": [(name, target)],
        } | ({"nn_module_stack": {each.key: (each.path, each.cls) for each in modules}} if modules else {})
        for key, value in found.items():
            dict.setdefault(self, key, value)

    def __missing__(self, key: str) -> Any:
        if self._is_filled:
            raise KeyError(key)
        self._fill()
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        if key in _MADE:
            self._fill()
        return dict.get(self, key, default)

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    __copy__ = copy

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (self.copy(),)


def frames_of(meta: dict[str, Any]) -> list[NodeOrigin]:
    """The program's frames that a node comes from, outermost first, as ``stack_trace`` shows them. Empty for a node
    that isn't the program's, or whose ``meta`` was replaced."""
    if not isinstance(meta, NodeMeta):
        return []
    chain = list(meta.origin.chain())
    return [frame for frame in chain if not frame.filename.startswith(_LEFT_OUT)] or chain


_MADE = frozenset({"stack_trace", "nn_module_stack", "source_fn_stack"})


def _after_filling(method: Callable[..., Any]) -> Callable[..., Any]:
    def filled(self: NodeMeta, *args: Any, **kwargs: Any) -> Any:
        self._fill()
        return method(self, *args, **kwargs)

    return filled


for _name in """__iter__ __len__ __contains__ __eq__ __ne__ __or__ __ror__ __delitem__
        keys values items pop popitem setdefault clear""".split():
    setattr(NodeMeta, _name, _after_filling(getattr(dict, _name)))
