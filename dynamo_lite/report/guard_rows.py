"""Arranges guards as a tree of places: ``self``, below it ``.fc``, below that ``.weight``, each with its checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from dynamo_lite.insight.recorder import GuardRecord

_STEP = re.compile(r"\.?[^.\[]+|\[(?:'[^']*'|\"[^\"]*\"|[^\]'\"])*\]|.")
_NO_PLACE = {"": "sizes and numbers", "torch:": "modes of torch"}


@dataclass
class PlaceRow:
    """A place, its checks, and the places below it."""

    name: str
    checks: list[GuardRecord] = field(default_factory=list)
    below: dict[str, PlaceRow] = field(default_factory=dict)

    def guards(self) -> Iterator[GuardRecord]:
        """The checks of this place and of all places below it."""
        yield from self.checks
        for each in self.below.values():
            yield from each.guards()

    @property
    def seconds(self) -> float:
        return sum(each.seconds or 0.0 for each in self.guards())

    @property
    def count(self) -> int:
        return sum(1 for _ in self.guards())

    def compressed(self) -> PlaceRow:
        """A copy in which a place without checks and its only child are one row: ``torch.nn.functional``."""
        below = {name: each.compressed() for name, each in self.below.items()}
        if not self.checks and len(below) == 1:
            (only,) = below.values()
            return PlaceRow(self.name + only.name, only.checks, only.below)
        return PlaceRow(self.name, self.checks, below)


def tree_of(guards: list[GuardRecord]) -> list[PlaceRow]:
    """The trees of the guards' places, in the order in which they are checked."""
    root = PlaceRow("")
    for guard in guards:
        steps = [_NO_PLACE[guard.place]] if guard.place in _NO_PLACE else _STEP.findall(guard.place)
        row = root
        for step in steps:
            row = row.below.setdefault(step, PlaceRow(step))
        row.checks.append(guard)
    return [each.compressed() for each in root.below.values()]
