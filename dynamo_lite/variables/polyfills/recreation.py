"""Functions that recreate, after a graph break, objects that survive the break as their parts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

It = TypeVar("It", bound=Iterator[Any])


def create_generator(
    function: Callable[..., Any], starts: bool, cells: tuple[object, ...], *values: object
) -> Generator[Any, Any, Any]:
    """A generator; if it ``starts``, it is suspended at its first ``yield``. ``function`` returns the generator
    function with these cells as its closure."""
    generator: Generator[Any, Any, Any] = function(cells)(*values)
    return advance_iterator(generator, int(starts))


def create_object(cls: type, names: Iterable[str], *values: object) -> Any:
    """An instance of ``cls`` with these attributes, without running ``__init__``."""
    made: Any = object.__new__(cls)
    for name, value in zip(names, values):
        object.__setattr__(made, name, value)
    return made


def strict_zip(*iterators: Iterator[Any]) -> Iterator[tuple[Any, ...]]:
    """``zip`` with ``strict=True``."""
    return zip(*iterators, strict=True)


def strict_map(function: Callable[..., Any], *iterators: Iterator[Any]) -> Iterator[Any]:
    """``map`` with ``strict=True``, which CPython 3.14 has."""
    return map(function, *iterators, strict=True)  # type: ignore[call-overload]


def advance_iterator(iterator: It, count: int) -> It:
    """Take ``count`` items of an iterator, or all if it has fewer; return it."""
    for _ in range(count):
        next(iterator, None)
    return iterator
