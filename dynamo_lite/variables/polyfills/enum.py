"""What ``enum`` does with a value that no member has."""

from __future__ import annotations

from typing import Any


def find_missing_member(cls: Any, value: Any) -> Any:
    """The end of ``Enum.__new__``: the class's own ``_missing_`` gives the member, or an error is raised."""
    error: Exception | None = None
    try:
        found = cls._missing_(value)
    except Exception as raised:
        found, error = None, raised
    if isinstance(found, cls):
        return found
    invalid = ValueError(f"{value!r} is not a valid {cls.__qualname__}")
    if error is None and found is None:
        raise invalid
    if error is None:
        text = f"error in {cls.__name__}._missing_: returned {found!r} instead of None or a valid member"
        error = TypeError(text)
    if not isinstance(error, ValueError):
        error.__context__ = invalid
    raise error
