"""Polyfill of the search of ``warnings.filters`` for the action of a warning."""

from __future__ import annotations

import warnings


def action_of(text: str, category: type, module: str, line: int) -> str:
    for action, message, kind, name, at in warnings.filters:
        if (
            (message is None or (message == text if isinstance(message, str) else message.match(text)))
            and issubclass(category, kind)
            and (name is None or (name == module if isinstance(name, str) else name.match(module)))
            and (at == 0 or at == line)
        ):
            return action
    return warnings.defaultaction  # type: ignore[attr-defined]
