"""Another module whose globals the programs write."""

from __future__ import annotations

from typing import Any

COUNT = 0
LOG: list[Any] = []
STATE: Any = None


def bump(by: int = 1) -> int:
    """Write this module's own global."""
    global COUNT  # noqa: PLW0603
    COUNT += by
    return COUNT
