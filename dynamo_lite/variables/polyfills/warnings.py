"""Polyfill of the search of ``warnings.filters`` for the action of a warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any


def action_of(text: str, category: type, module: str, line: int, filters: Iterable[Any] | None = None) -> str:
    """The action of ``filters``, by default the process's. The initial ones have plain text instead of patterns."""
    for action, message, kind, name, at in warnings.filters if filters is None else filters:
        if (
            (message is None or (message == text if isinstance(message, str) else message.match(text)))
            and issubclass(category, kind)
            and (name is None or (name == module if isinstance(name, str) else name.match(module)))
            and (at == 0 or at == line)
        ):
            return action
    return warnings.defaultaction  # type: ignore[attr-defined]
