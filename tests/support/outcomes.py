"""What calls do, as a value: programs return it, and tests compare it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """What a call returns, or the type and the text of what it raises."""
    try:
        return call(*args)
    except Exception as error:  # whatever it raises is what is compared
        return type(error).__name__, str(error)


def outcomes(*calls: Callable[[], Any]) -> list[Any]:
    return [outcome(call) for call in calls]
