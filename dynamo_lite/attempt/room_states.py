"""Records that only one room uses: the attempt or the plan holds them for the room, and doesn't know their classes."""

from __future__ import annotations

from typing import Any


class RoomStates(dict[type, Any]):
    """One instance of each class, created when it is first asked for."""

    def __missing__(self, kind: type) -> Any:
        found = self[kind] = kind()
        return found
