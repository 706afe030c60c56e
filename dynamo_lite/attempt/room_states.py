"""Records that only one room uses: the attempt or the plan holds them for the room, and doesn't know their classes."""

from __future__ import annotations

from typing import Any, TypeVar

_State = TypeVar("_State")


class RoomStates(dict[type, Any]):
    """One instance of each class, created when it is first asked for."""

    def of(self, kind: type[_State]) -> _State:
        found: _State | None = self.get(kind)
        if found is None:
            found = self[kind] = kind()
        return found
