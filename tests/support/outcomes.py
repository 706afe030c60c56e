"""The outcomes of calls as values, which programs return and tests compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """Returns the result of a call, or the type and text of its exception."""
    try:
        return call(*args)
    except Exception as error:  # whatever it raises is what is compared
        return type(error).__name__, str(error)


def outcomes(*calls: Callable[[], Any]) -> list[Any]:
    return [outcome(call) for call in calls]
