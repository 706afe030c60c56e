"""What is said of a graph that is compiled in pieces."""

from __future__ import annotations

from dataclasses import dataclass

from .counters import counted

REGIONS = "dynamo_lite_regions"
"""Where a compiled graph's ``meta`` has its `Regions`."""


@dataclass(frozen=True)
class Regions:
    """The pieces of a graph, of which each distinct one is compiled once."""

    pieces: int
    distinct: int
    operators: int
    compiled_operators: int
    """The operators of the distinct pieces."""
    saved_seconds: float = 0.0
    """How long compiling the other pieces would have taken, by the time that their like took."""

    def __str__(self) -> str:
        text = (
            f"{counted(self.pieces, 'piece')}, of which {self.distinct} are compiled: "
            f"{self.compiled_operators} of {counted(self.operators, 'operator')}"
        )
        return f"{text}, {self.saved_seconds:.1f} s saved" if self.saved_seconds else text
