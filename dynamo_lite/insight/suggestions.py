"""What an error says of a name that doesn't exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(name: str, names: Iterable[str], meant: str | None = None) -> str:
    """The name that is probably meant, and all of them, sorted: ``did you mean 'eager'? There are: aot_eager, eager``.

    Args:
        name: what the user wrote.
        names: the names that exist.
        meant: the one that is meant, where that is known.
    """
    known = sorted(names)
    similar = [meant] if meant else difflib.get_close_matches(name, known, 1)
    listed = ", ".join(known)
    return f"did you mean {similar[0]!r}? There are: {listed}" if similar else f"there are: {listed}"
