"""Which objects the constants are that a trace knows: by ``is`` a program tells equal ones apart."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

from .source import Source


class Constants:
    """Those that were found, each with a place, and those of code that was traced. All others were computed."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, Source]] = {}
        self._codes: dict[int, CodeType] = {}
        self._in_code: set[int] | None = None

    def close(self) -> None:
        self._found.clear()
        self._codes.clear()

    def found(self, value: Any, source: Source) -> None:
        """One of the program's data."""
        self._found[id(value)] = value, source

    def note_code(self, code: CodeType) -> None:
        self._codes[id(code)] = code

    def place(self, value: Any) -> Source | None:
        """Where this very object was found."""
        found = self._found.get(id(value))
        return None if found is None else found[1]

    def in_code(self, value: Any) -> bool:
        """Whether this very object is a constant of the code; asked when all of that was traced."""
        if self._in_code is None:
            self._in_code = {id(each) for code in self._codes.values() for each in _constants_of(code)}
        return id(value) in self._in_code


def _constants_of(code: CodeType) -> Iterator[Any]:
    for each in code.co_consts:
        yield each
        if type(each) is tuple:
            yield from each
