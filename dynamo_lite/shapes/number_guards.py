"""Where a guard reads the numbers of a call (sizes, strides, ints, floats), and the guards on these numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch._guards

from dynamo_lite.exc import ConstraintViolation
from dynamo_lite.sources.source import Source

from .expressions import Step

LARGE = 1 << 62
"""Numbers of this magnitude are specialized: a guard program on them could overflow its 64-bit integers."""


class DimRange(NamedTuple):
    """A dimension marked dynamic, with sizes from ``min`` to ``max``, both inclusive. None: no bound."""

    dim: int
    min: int | None
    max: int | None

    @property
    def low(self) -> int:
        """The lower bound of the symbol: sizes 0 and 1 are specialized."""
        return 2 if self.min is None else max(self.min, 2)

    def check(self, source: Source, tensor: torch.Tensor) -> None:
        """Check a tensor against the range.

        Raises:
            ConstraintViolation: its size is outside the range, or is specialized (0 or 1).
        """
        size = tensor.size(self.dim)
        if self.min is self.max is None or self.min == self.max == size:
            return
        is_out = (self.min is not None and size < self.min) or (self.max is not None and size > self.max)
        if is_out or size < 2:
            low = "" if self.min is None else f" at least {self.min}"
            high = "" if self.max is None else f" at most {self.max}"
            place = NumberSource(source, "size", self.dim)
            why = "" if is_out else ", a size that is always specialized, so that the graph is not valid for the range"
            raise ConstraintViolation(
                f"{place} is marked dynamic with{' and'.join(filter(None, (low, high)))}, but is {size}{why}"
            )


Kind = Literal["size", "stride", "offset", "int", "float"]


@dataclass(frozen=True)
class NumberSource:
    """Where a call's number is read: a size, stride or storage offset of the tensor at ``source``, or the int or float
    there."""

    source: Source
    kind: Kind
    dim: int = 0
    """Of a size or stride."""

    def __str__(self) -> str:
        return _TEXTS[self.kind].format(self.source, self.dim)

    def instruction(self, value: int) -> Step:
        """The instruction of a guard program that reads it. ``value``: the index of the source in the program's."""
        return (self.kind, value, self.dim) if self.kind in ("size", "stride") else (self.kind, value)


_TEXTS: dict[Kind, str] = {
    "size": "{0}.size({1})",
    "stride": "{0}.stride({1})",
    "offset": "{0}.storage_offset()",
    "int": "{0}",
    "float": "{0}",
}


class SymbolicGuard(NamedTuple):
    """A condition on the numbers of a call."""

    sources: list[Source]
    """What the program reads its numbers from."""
    program: list[Step]
    """In postfix order, for `GuardTree`'s check of kind ``symbolic``."""
    text: str
    """In the user's terms."""


def marked_ranges(tensor: torch.Tensor) -> list[DimRange]:
    """The ranges that a tensor is marked with. torch's ``mark_dynamic`` doesn't check its bounds, so this does.

    Raises:
        ConstraintViolation: a bound is not an integer.
    """
    given = [DimRange(each.dim, each.min, each.max) for each in getattr(tensor, "_dynamo_dynamic_range", ())]
    for each in given:
        if any(bound is not None and not isinstance(bound, int) for bound in (each.min, each.max)):
            raise ConstraintViolation(
                f"dimension {each.dim} is marked dynamic with bounds that are no integers: {each}"
            )
    return [each for each in given if 0 <= each.dim < tensor.dim()]
