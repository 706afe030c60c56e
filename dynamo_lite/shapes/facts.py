"""Places where a call finds a number, and the facts about these numbers that are checked before each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch._guards

from dynamo_lite.exc import ConstraintViolation

from .expressions import Step
from .float_formulas import Formula

if TYPE_CHECKING:
    from dynamo_lite.records.source import Source


LARGE = 1 << 62
"""From here on a number is never a symbol: a guard program in C++ might leave the range of its integers."""


class DimRange(NamedTuple):
    """A dimension that may have any size from ``min`` to ``max``, both inclusive; None: no bound."""

    dim: int
    min: int | None
    max: int | None

    @property
    def low(self) -> int:
        """The smallest size that a symbol may stand for."""
        return 2 if self.min is None else max(self.min, 2)

    def check(self, source: Source, tensor: torch.Tensor) -> None:
        """
        Raises:
            ConstraintViolation: the tensor's size is another, or one that no symbol stands for.
        """
        size = tensor.size(self.dim)
        if self.min is self.max is None or self.min == self.max == size:
            return
        is_out = (self.min is not None and size < self.min) or (self.max is not None and size > self.max)
        if is_out or size < 2:
            low = "" if self.min is None else f" at least {self.min}"
            high = "" if self.max is None else f" at most {self.max}"
            place = Place(source, "size", self.dim)
            why = "" if is_out else ", which is compiled for by itself, so that the range is not what the graph is for"
            raise ConstraintViolation(
                f"{place} is marked dynamic with{' and'.join(filter(None, (low, high)))}, but is {size}{why}"
            )


@dataclass(frozen=True)
class Place:
    """Where a call finds a number: a ``size`` or ``stride`` of a tensor, its ``offset``, or an ``int`` or ``float``
    itself."""

    source: Source
    kind: str
    dim: int = 0

    def __str__(self) -> str:
        return _PLACE_NAMES[self.kind].format(self.source, self.dim)

    def load(self, cg: Any) -> None:
        """Emit what leaves an ``int`` or ``float`` on the stack."""
        cg.load_source(self.source)

    def instruction(self, value: int) -> Step:
        """How a symbolic program reads it; ``value``: which of the program's values the source is."""
        return (self.kind, value, self.dim) if self.kind in ("size", "stride") else (self.kind, value)


_PLACE_NAMES = {"size": "{0}.size({1})", "stride": "{0}.stride({1})", "offset": "{0}.storage_offset()"}
_PLACE_NAMES |= {"int": "{0}", "float": "{0}"}


class Computed(NamedTuple):
    """An integer that Python computes of floats before the graph runs."""

    formula: Formula


class Fact(NamedTuple):
    """Something that must be true of the numbers that a call brings."""

    sources: list[Source]
    program: list[Step]
    """For `GuardTree`'s check of kind ``symbolic``."""
    text: str


def marked_ranges(tensor: torch.Tensor) -> list[DimRange]:
    """The ranges that a tensor is marked with, by us or by torch, which takes what it is given."""
    given = [DimRange(each.dim, each.min, each.max) for each in getattr(tensor, "_dynamo_dynamic_range", ())]
    for each in given:
        if any(bound is not None and not isinstance(bound, int) for bound in (each.min, each.max)):
            raise ConstraintViolation(
                f"dimension {each.dim} is marked dynamic with bounds that are no integers: {each}"
            )
    return [each for each in given if 0 <= each.dim < tensor.dim()]
