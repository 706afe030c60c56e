"""Where a graph's node comes from: the program's lines and modules, as text that is made when somebody reads it.

Backends, profilers and quantizers read ``stack_trace``, ``nn_module_stack`` and ``source_fn_stack`` in a node's
``meta``, in the form that torch.compile gives them. Most graphs are compiled without anybody reading them.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import os
from collections.abc import Callable, Iterator
from traceback import FrameSummary, StackSummary
from typing import Any, NamedTuple

import torch

from dynamo_lite.bytecode.instructions import Positions
from dynamo_lite.insight.program_files import OURS
from dynamo_lite.sources.source import Source


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


class _Texts:
    """What is made from a node's origin: once for the node and all copies of its ``meta``, which compilers make."""

    __slots__ = ("origin", "_source_fn", "_made")

    def __init__(self, origin: NodeOrigin, name: str, target: Any) -> None:
        self.origin = origin
        self._source_fn = name, target
        self._made: dict[str, Any] | None = None

    def made(self) -> dict[str, Any]:
        if self._made is None:
            modules = [frame.module for frame in self.origin.chain() if frame.module is not None]
            name, target = self._source_fn
            if modules and modules[-1].cls.__module__.startswith("torch.nn.modules."):
                target = modules[-1].cls
            self._made = {"stack_trace": _formatted(_own_frames(self.origin)), "source_fn_stack": [(name, target)]}
            if modules:
                self._made["nn_module_stack"] = {each.key: (each.path, each.cls) for each in modules}
        return self._made


def _formatted(frames: list[NodeOrigin]) -> str:
    """The frames as a traceback shows them. Nodes share their outer frames, so the text of each is cached."""
    lines = [_line(each.filename, each.function, each.positions, _stamp(each.filename)) for each in frames]
    if any(one == other for one, other in itertools.pairwise(lines)):  # a traceback counts the frames of a recursion
        return "".join(StackSummary.from_list([frame.summary() for frame in frames]).format())
    return "".join(lines)


@functools.lru_cache(maxsize=4096)
def _line(filename: str, function: str, positions: Positions | None, stamp: object) -> str:
    """``stamp``: changes with the source's text."""
    frame = NodeOrigin(None, filename, function, positions, None)
    return "".join(StackSummary.from_list([frame.summary()]).format())


def _stamp(filename: str) -> object:
    """The size and time of what `linecache` has of a file."""
    return linecache.cache.get(filename, ())[:2]


class NodeMeta(dict[str, Any]):
    """The ``meta`` of a node. It looks like a dict that has what is made from the origin, which is made when needed."""

    __slots__ = ("_texts", "_is_filled")

    def __init__(self, origin: NodeOrigin, name: str, target: Any) -> None:
        self._texts = _Texts(origin, name, target)
        self._is_filled = False

    @property
    def origin(self) -> NodeOrigin:
        return self._texts.origin

    def _fill(self) -> None:
        if self._is_filled:
            return
        self._is_filled = True
        for key, value in self._texts.made().items():
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
        made = NodeMeta.__new__(NodeMeta)
        made._texts, made._is_filled = self._texts, self._is_filled
        dict.update(made, dict.items(self))
        return made

    __copy__ = copy

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (dict(self.items()),)


def frames_of(meta: dict[str, Any]) -> list[NodeOrigin]:
    """The program's frames that a node comes from, outermost first, as ``stack_trace`` shows them. Empty for a node
    that isn't the program's, or whose ``meta`` was replaced."""
    return _own_frames(meta.origin) if isinstance(meta, NodeMeta) else []


def _own_frames(origin: NodeOrigin) -> list[NodeOrigin]:
    chain = list(origin.chain())
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
