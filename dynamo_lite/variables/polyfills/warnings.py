"""What the filters of ``warnings`` do with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any


def may_raise() -> bool:
    """Whether a filter turns warnings into exceptions. A trace inlines this."""
    return any([action == "error" for action, *_ in warnings.filters])


def action_of(text: str, category: type, module: str, line: int, filters: Iterable[Any]) -> str:
    """The action of ``filters`` on a warning at a line of a module. The initial ones have plain text instead of
    patterns."""
    for action, message, kind, name, at in filters:
        if (
            (message is None or (message == text if isinstance(message, str) else message.match(text)))
            and issubclass(category, kind)
            and (name is None or (name == module if isinstance(name, str) else name.match(module)))
            and (at == 0 or at == line)
        ):
            return action
    return warnings.defaultaction  # type: ignore[attr-defined]
