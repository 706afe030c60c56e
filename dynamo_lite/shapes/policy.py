"""Which numbers are symbols: those that were seen to change, or that the user marked, under one `dynamic` setting."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch._guards

from .facts import LARGE, marked_ranges

if TYPE_CHECKING:
    from dynamo_lite.records.source import Source


class Free(NamedTuple):
    """The dimensions of a tensor whose sizes are symbols, and those whose strides are, whatever the sizes."""

    sizes: list[int]
    strides: list[int]


@dataclass
class SpecializationHistory:
    """What translations of a code object had to find out: where they had to know numbers, and where to break."""

    steps: dict[int, Any] = field(default_factory=dict)
    """Those that an instruction takes: how many steps there were before it -> where it is."""
    whole: dict[int, bool] = field(default_factory=dict)
    """Ids of functions that may be put into the graph as they are, and can't be traced: whether they can so."""
    to_fill: set[Any] = field(default_factory=set)
    """Dicts and caches that lacked something when a translation broke: they may be filled by what runs then."""
    needs_all_specialized: set[Any] = field(default_factory=set)
    """How instructions failed for which that is not enough, but knowing all numbers is."""
    unmet: set[Any] = field(default_factory=set)  # places of conditions on data that failed again and again


@dataclass
class Seen:
    """What the translations of a code object met: the last values by the names of their places."""

    values: dict[str, Any] = field(default_factory=dict)
    changed: set[tuple[str, int]] = field(default_factory=set)
    """Places (and dimensions of those, -1 for a number) whose values were not always the same."""
    settled: SpecializationHistory = field(default_factory=SpecializationHistory)


class ShapePolicy:
    """Decides for the ``dl.compile``s of some settings which numbers are symbols. ``dynamic``: None: those that
    changed; or all; or none. Marks on tensors go before that.

    Parameters and buffers keep their shapes; the integers 0 and 1 are never symbols.
    """

    def __init__(self, dynamic: bool | None) -> None:
        self.dynamic = dynamic
        self._seen: weakref.WeakKeyDictionary[CodeType, Seen] = weakref.WeakKeyDictionary()

    def begin(
        self,
        code: CodeType,
        arguments: dict[str, Any],
        floats: bool = True,
        arguments_only: bool = False,
    ) -> TranslationShapes:
        """For one translation of a frame. ``floats``: whether its graph may be given tensors that are made of floats;
        if not, floats are known. ``arguments_only``: whether all other tensors keep their shapes."""
        seen = self._seen.setdefault(code, Seen())
        return TranslationShapes(self.dynamic, floats, arguments_only, seen, arguments)

    def forget(self) -> None:
        self._seen.clear()


class TranslationShapes:
    """What one translation asks of the policy, and what it meets."""

    def __init__(
        self,
        dynamic: bool | None,
        floats: bool,
        arguments_only: bool,
        seen: Seen,
        arguments: dict[str, Any],
    ) -> None:
        self._dynamic = dynamic
        self.floats = floats
        self._arguments_only = arguments_only
        self._seen = seen
        self.settled = seen.settled
        self._arguments = arguments
        self._met: dict[str, Any] = {}
        self.specializes_all = False
        """Whether no number is to be a symbol after all, but for those that are marked."""

    def keep(self) -> None:
        """The translation came through: the next one knows what this one met."""
        self._seen.values.update(self._met)

    def free(self, source: Source, tensor: torch.Tensor) -> Free:
        """What of a tensor is symbols.

        Raises:
            ConstraintViolation: a size is out of the range that it is marked with.
        """
        marked = getattr(tensor, "_dynamo_dynamic_indices", ())
        known = set(getattr(tensor, "_dynamo_static_indices", ())).difference(marked)
        for each in marked_ranges(tensor):
            each.check(source, tensor)
            if each.low == each.max:
                known.add(each.dim)
        free, strides = set(marked), set[int]()
        stays = _of_a_module(source, tensor) or (self._arguments_only and _root_of(source).kind != "local")
        if self._dynamic is not False and not self.specializes_all and not stays:
            changed = self._changes(source, tuple(tensor.shape))
            weakly = getattr(tensor, "_dynamo_weak_dynamic_indices", ())
            free.update(range(tensor.dim()) if self._dynamic else (*changed, *weakly))
            strides = self._changes(source, _own_strides(tensor), ".stride()")
        sizes = [dim for dim, size in enumerate(tensor.shape) if size > 1 and dim in free and dim not in known]
        return Free(sizes, sorted(strides))

    def is_symbol(self, source: Source, value: int) -> bool:
        """Whether an integer is one."""
        if not self._differs(source, value) or abs(value) >= LARGE:
            return False
        return value not in (0, 1) or -1 in self._changes(source, value)

    def is_formula(self, source: Source, value: float) -> bool:
        """Whether a float may differ from call to call. NaN is told from others by identity."""
        return self.floats and self._differs(source, value) and value == value

    def _differs(self, source: Source, value: float) -> bool:
        if self._dynamic is False or self.specializes_all or source.kind == "const":
            return False
        return -1 in self._changes(source, value) or bool(self._dynamic and source.kind == "local")

    def _changes(self, source: Source, value: Any, of: str = "") -> set[int]:
        """The dimensions (-1: the number) that were something else once. ``of``: what of the tensor, if not sizes."""
        name = f"{source}{of}"
        holder = self._holder(source)
        self._met[name] = (holder, value)
        before = self._seen.values.get(name)
        if before is not None and before[0] == holder and type(before[1]) is type(value):
            for dim in _differences(before[1], value):
                self._seen.changed.add((name, dim))
        return {dim for place, dim in self._seen.changed.copy() if place == name}  # other threads add to it

    def _holder(self, source: Source) -> int:
        """Which module the place belongs to: that of another one having another value is no change."""
        root = _root_of(source)
        if root.kind == "const":
            return id(root.arg)
        held = self._arguments.get(root.arg) if root.kind == "local" else None
        return id(held) if issubclass(type(held), torch.nn.Module) else 0


def _root_of(source: Source) -> Source:
    """The part of a frame that a place is found in: an argument, the globals or another."""
    while source.parent is not None and source.parent.parent is not None:
        source = source.parent
    return source


def _of_a_module(source: Source, tensor: torch.Tensor) -> bool:
    """Whether the tensor is a parameter or buffer."""
    holder = source.parent
    return isinstance(tensor, torch.nn.Parameter) or (holder is not None and holder.arg in ("_parameters", "_buffers"))


def _differences(before: Any, now: Any) -> list[int]:
    if not isinstance(now, tuple):
        return [] if before == now else [-1]
    if len(before) != len(now):
        return []
    return [dim for dim, (a, b) in enumerate(zip(before, now)) if a != b and a is not None and b is not None]


def _own_strides(tensor: torch.Tensor) -> tuple[int | None, ...]:
    """None for those that follow from another dimension, or from none."""
    steps = [size * stride for size, stride in zip(tensor.shape, tensor.stride())]
    others = [{*steps[:dim], *steps[dim + 1 :], 0, 1} for dim in range(tensor.dim())]
    return tuple(None if stride in those else stride for stride, those in zip(tensor.stride(), others))
