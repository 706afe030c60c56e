"""Polyfills of ``re``."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any


def substitute(
    function: Callable[[re.Match[Any]], Any], found: Sequence[tuple[Any, re.Match[Any]]], rest: object, empty: Any
) -> Any:
    """``Pattern.sub`` with a function. ``found``: the text before each match, and the match; ``rest``: the text behind
    the last one; ``empty``: an empty text."""
    parts = []
    for before, match in found:
        if before:
            parts.append(before)
        replacement = function(match)
        if replacement is not None:
            parts.append(replacement)
    if rest:
        parts.append(rest)
    return empty.join(parts)
