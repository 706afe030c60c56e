"""The identity of an object as a number, for tables whose keys mustn't run a user's ``__hash__`` or ``__eq__``."""

from __future__ import annotations

from collections.abc import Callable

identity: Callable[[object], int] = object.__hash__
"""Like `id`, different for objects that are alive at once. `id` raises an audit event: if a library has added an audit
hook in Python, which can't be removed, each call of it runs that hook."""
