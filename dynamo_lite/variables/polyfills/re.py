"""Polyfills of ``re``."""

from __future__ import annotations

from typing import Any


def substitute(pattern: Any, repl: Any, string: Any, count: int = 0) -> Any:
    """``Pattern.subn`` with a function as ``repl``."""
    parts, end, made = [], 0, 0
    for match in pattern.finditer(string):
        if count and made >= count:
            break
        parts.append(string[end : match.start()])
        text = repl(match)
        if text is not None:
            parts.append(text)
        end = match.end()
        made += 1
    parts.append(string[end:])
    return string[:0].join(parts), made
