"""Where compiled code was called from: the program's stacks, merged where they begin alike."""

from __future__ import annotations

from dataclasses import dataclass, field

from dynamo_lite.insight.recorder import EntryRecord, Place


@dataclass
class Step:
    """One line of the program in a stack. ``places``: several where no other stack branches off between them."""

    places: list[Place]
    entries: list[EntryRecord] = field(default_factory=list)
    """What was compiled for the last place."""
    below: dict[Place, Step] = field(default_factory=dict)

    def compressed(self) -> Step:
        below = {place: each.compressed() for place, each in self.below.items()}
        if self.places and not self.entries and len(below) == 1:
            (only,) = below.values()
            return Step([*self.places, *only.places], only.entries, only.below)
        return Step(self.places, self.entries, below)

    @property
    def count(self) -> int:
        return len(self.entries) + sum(each.count for each in self.below.values())


def stacks_of(entries: list[EntryRecord]) -> list[Step]:
    """The outermost steps, in the order in which they were compiled first."""
    root = Step([])
    for entry in entries:
        step = root
        for place in entry.stack:
            step = step.below.setdefault(place, Step([place]))
        step.entries.append(entry)
    return [*root.compressed().below.values()]
