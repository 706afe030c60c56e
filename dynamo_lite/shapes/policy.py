"""Decides which numbers are symbolic: those that have changed between calls, and those that the user marked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, NamedTuple

import torch
import torch._guards

from dynamo_lite import config
from dynamo_lite.bytecode.decode import PerCode
from dynamo_lite.insight.site import Site
from dynamo_lite.sources.source import PlaceKey, Source

from .number_guards import LARGE, marked_ranges

_ITEMS = frozenset({"tuple_item", "list_item", "deque_item", "dict_item"})
"""Accessors from a container to an item."""


class SymbolicDims(NamedTuple):
    """The dimensions of a tensor whose sizes are symbolic, and those whose strides are symbols of their own."""

    sizes: list[int]
    strides: list[int]


@dataclass
class SpecializationHistory:
    """What the translations of a code object have learnt: where numbers have to be specialized, where to break."""

    steps: dict[int, Site | None] = field(default_factory=dict)
    """Instructions whose operands are specialized: number of steps before the instruction -> its place."""
    other_way: dict[int, bool] = field(default_factory=dict)
    """id of a function that can't be traced in the first of two ways -> whether the second may succeed."""
    to_fill: set[PlaceKey | tuple[int, int]] = field(default_factory=set)
    """Dicts and caches that lacked an entry when a translation broke. The code after the break may have added it."""
    numbers_read: set[Site] = field(default_factory=set)
    """Places of ``item()`` whose number the program needs."""


@dataclass
class ValueHistory:
    """The values that the translations of a code object met."""

    values: dict[PlaceKey, tuple[int, Any]] = field(default_factory=dict)
    """Key of a place -> (id of its module, last value)."""
    changed: set[tuple[PlaceKey, int]] = field(default_factory=set)
    """(key of a place, dimension) whose values have changed. -1 instead of a dimension: the number itself."""
    mixed: set[PlaceKey] = field(default_factory=set)
    """Keys of places that held tensors of several ranks, or tensors and numbers: all that is there may change."""
    specializations: SpecializationHistory = field(default_factory=SpecializationHistory)


class ShapePolicy:
    """Decides which numbers are symbolic, for all ``dl.compile``s of the same settings.

    ``dynamic``: None: those that have changed; True: all; False: none. Marks on tensors take precedence. Shapes of
    parameters and buffers are specialized, and so are the integers 0 and 1 unless they have changed.
    """

    def __init__(self, dynamic: bool | None) -> None:
        self.dynamic = dynamic
        self._histories = PerCode(lambda _: ValueHistory())

    def begin(
        self, code: CodeType, arguments: dict[str, Any], floats: bool = True, arguments_only: bool = False
    ) -> TranslationShapes:
        """Start a translation of a frame.

        Args:
            arguments: the frame's, by name.
            floats: whether floats may be symbolic, which makes them scalar tensors among the graph's inputs.
            arguments_only: whether only the shapes of arguments may be symbolic.
        """
        history = self._histories(code)
        dynamic = config.dynamic_by_torch() if self.dynamic is None else self.dynamic
        return TranslationShapes(dynamic, floats, arguments_only, history, arguments)

    def expect_changes(self, code: CodeType, places: Iterable[tuple[PlaceKey, int]]) -> None:
        """Make numbers symbolic from the first translation of a code object on, unless no number is to be.

        Args:
            places: keys of places, each with a dimension or -1, as in `ValueHistory.changed`.
        """
        self._histories(code).changed.update(places)

    def forget(self) -> None:
        """Drop what has been learnt of all code objects."""
        self._histories.clear()


class TranslationShapes:
    """The policy's decisions for one translation, and the values that it meets."""

    def __init__(
        self, dynamic: bool | None, floats: bool, arguments_only: bool, values: ValueHistory, arguments: dict[str, Any]
    ) -> None:
        self._dynamic = dynamic
        self.floats = floats
        self._arguments_only = arguments_only
        self._values = values
        self.history = values.specializations
        self._arguments = arguments
        self._met: dict[PlaceKey, tuple[int, Any]] = {}

    def keep(self) -> None:
        """Add the values that this translation met to the history, once it has succeeded."""
        self._values.values.update(self._met)

    def free(self, source: Source, tensor: torch.Tensor) -> SymbolicDims:
        """The symbolic dimensions of a tensor.

        Raises:
            ConstraintViolation: a size is outside the range that it is marked with.
        """
        marked = getattr(tensor, "_dynamo_dynamic_indices", ())
        static = set(getattr(tensor, "_dynamo_static_indices", ())).difference(marked)
        for each in marked_ranges(tensor):
            each.check(source, tensor)
            if each.low == each.max:
                static.add(each.dim)
        free, strides = set(marked), set[int]()
        is_static = _is_module_state(source, tensor) or (self._arguments_only and _root_of(source).kind != "local")
        if self._dynamic is not False and not is_static:
            changed = self._changed_dims(source, tuple(tensor.shape))
            weakly = {*getattr(tensor, "_dynamo_weak_dynamic_indices", ()), *_unbacked(tensor)}
            free.update(range(tensor.dim()) if self._dynamic else (*changed, *weakly))
            strides = self._changed_dims(source, _own_strides(tensor), f".stride() of rank {tensor.dim()}")
        sizes = [dim for dim, size in enumerate(tensor.shape) if size > 1 and dim in free and dim not in static]
        return SymbolicDims(sizes, sorted(strides))

    def is_symbol(self, source: Source, value: int) -> bool:
        """Whether an integer is symbolic."""
        if not self._may_change(source, value) or abs(value) >= LARGE:
            return False
        return value not in (0, 1) or -1 in self._changed_dims(source, value)

    def is_formula(self, source: Source, value: float) -> bool:
        """Whether a float is symbolic. NaN, which equals nothing, is specialized by identity."""
        return self.floats and self._may_change(source, value) and value == value

    def has_changed(self, source: Source, value: object) -> bool:
        """Whether a number of another library's has differed between calls."""
        return -1 in self._changed_dims(source, value) and self._dynamic is not False

    def varies(self, source: Source) -> bool:
        """Whether a number there has differed between calls, or is expected to. It isn't a value that this translation
        meets."""
        return (source.key, -1) in self._values.changed

    def varies_by_call(self, source: Source) -> bool:
        """Whether what is at a source is each call's own: an argument, or an item of containers that are arguments."""
        while source.kind in _ITEMS and source.parent is not None:
            source = source.parent
        return source.kind == "local" and self._dynamic is not False

    def _may_change(self, source: Source, value: float) -> bool:
        if self._dynamic is False or source.kind == "const":
            return False
        return -1 in self._changed_dims(source, value) or bool(self._dynamic and source.kind == "local")

    def _changed_dims(self, source: Source, value: object, of: str = "") -> set[int]:
        """Note the value at a source; return the dimensions (-1: the number itself) that have changed so far. ``of``:
        the tensor's property that the value is, if not its sizes."""
        key = PlaceKey(f"{source.key}{of}")
        holder = self._holder(source)
        self._met[key] = (holder, value)
        before = self._values.values.get(key)
        if before is not None and before[0] == holder:
            if _kind(before[1]) == _kind(value):
                for dim in _differences(before[1], value):
                    self._values.changed.add((key, dim))
            else:
                self._values.mixed.add(key)
        if key in self._values.mixed:
            return set(range(len(value))) if isinstance(value, tuple) else {-1}
        changed = self._values.changed.copy()  # other threads add to the set
        return {dim for place, dim in changed if place == key}

    def _holder(self, source: Source) -> int:
        """The id of the module that a source belongs to. Values of different modules are not compared."""
        root = _root_of(source)
        if root.kind == "const":
            return id(root.arg)
        held = self._arguments.get(root.arg) if root.kind == "local" else None
        return id(held) if issubclass(type(held), torch.nn.Module) else 0


def _root_of(source: Source) -> Source:
    """The part of the frame that a source starts from: an argument, the globals and so on."""
    while source.parent is not None and source.parent.parent is not None:
        source = source.parent
    return source


def _unbacked(tensor: torch.Tensor) -> set[int]:
    """The dimensions marked by torch's ``mark_unbacked``: symbolic here, but for sizes of 0 and 1."""
    marks = ("_dynamo_unbacked_indices", "_dynamo_strict_unbacked_indices")
    return {dim % tensor.dim() for name in marks for dim in getattr(tensor, name, ())}


def _is_module_state(source: Source, tensor: torch.Tensor) -> bool:
    """Whether the tensor is a parameter or buffer."""
    holder = source.parent
    return isinstance(tensor, torch.nn.Parameter) or (holder is not None and holder.arg in ("_parameters", "_buffers"))


def _kind(value: object) -> object:
    """The kind of a number or of sizes. Values of one kind are compared with each other: tensors of one rank, Python's
    ints and floats, numpy's scalars of one type."""
    if isinstance(value, tuple):
        return len(value)
    return float if type(value) is int else type(value)


def _differences(before: Any, now: Any) -> list[int]:
    """The dimensions in which two values differ, neither of them None there. [-1] for different numbers."""
    if not isinstance(now, tuple):
        return [] if before == now else [-1]
    return [dim for dim, (a, b) in enumerate(zip(before, now)) if a != b and a is not None and b is not None]


def _own_strides(tensor: torch.Tensor) -> tuple[int | None, ...]:
    """Strides, but None for those that follow from another dimension's size and stride, or are 0 or 1."""
    steps = [size * stride for size, stride in zip(tensor.shape, tensor.stride())]
    others = [{*steps[:dim], *steps[dim + 1 :], 0, 1} for dim in range(tensor.dim())]
    return tuple(None if stride in those else stride for stride, those in zip(tensor.stride(), others))
