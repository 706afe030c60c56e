"""The identity of constants, which a program can compare by ``is``: where each existing one can be reloaded from."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType

from .identity import identity
from .source import Source


class Constants:
    """Constants read from sources, and those of traced code objects. All others were computed during tracing."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[object, Source]] = {}
        self._codes: dict[int, CodeType] = {}
        self._in_code: set[int] | None = None

    def close(self) -> None:
        self._found.clear()
        self._codes.clear()

    def found(self, value: object, source: Source) -> None:
        """Record a constant that was read from a source."""
        self._found[identity(value)] = value, source

    def note_code(self, code: CodeType) -> None:
        self._codes[identity(code)] = code

    def place(self, value: object) -> Source | None:
        """The source of this very object, if it was read from one."""
        found = self._found.get(identity(value))
        return None if found is None else found[1]

    def in_code(self, value: object) -> bool:
        """Whether this very object is a constant of traced code. To be called after tracing."""
        if self._in_code is None:
            self._in_code = {identity(each) for code in self._codes.values() for each in _constants_of(code)}
        return identity(value) in self._in_code


def _constants_of(code: CodeType) -> Iterator[object]:
    for each in code.co_consts:
        yield each
        if type(each) is tuple:
            yield from each
