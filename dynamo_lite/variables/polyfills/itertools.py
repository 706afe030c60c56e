"""Polyfills of ``itertools``, as generators.

Callers pass iterators where CPython's constructors call ``iter()`` on an argument. None of them has a ``try``: an
exception that propagates out of one breaks the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_MISSING = object()


def chain(*iterables: Iterable[T]) -> Iterator[T]:
    for iterable in iterables:
        yield from iterable


def from_iterable(iterable: Iterable[Iterable[T]], /) -> Iterator[T]:
    for each in iterable:
        yield from each


def cycle(iterable: Iterable[T], /) -> Iterator[T]:
    saved = []
    for item in iterable:
        saved.append(item)
        yield item
    while saved:
        for item in saved:
            yield item


def islice(iterable: Iterable[T], start: int, stop: int | None, step: int) -> Iterator[T]:
    """Like CPython's, it consumes ``max(start, stop)`` items in all."""
    end = None if stop is None else max(start, stop)
    at = 0
    if end == 0:
        return
    for item in iterable:
        if at == start:
            start += step
            yield item
        at += 1
        if at == end:
            return


def pairwise(iterable: Iterator[object], /) -> Iterator[tuple[object, object]]:
    before = next(iterable, _MISSING)
    if before is _MISSING:
        return
    for item in iterable:
        yield before, item
        before = item


def batched(iterable: Iterable[T], n: int, *, strict: bool = False) -> Iterator[tuple[T, ...]]:
    batch: list[T] = []
    for item in iterable:
        batch.append(item)
        if len(batch) == n:
            yield tuple(batch)
            batch = []
    if batch:
        if strict:
            raise ValueError("batched(): incomplete batch")
        yield tuple(batch)


def count(start: Any = 0, step: Any = 1) -> Iterator[Any]:
    while True:
        current = start
        start = start + step
        yield current


def repeat(object: T, times: int | None = None) -> Iterator[T]:
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


def accumulate(
    iterable: Iterator[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: object = None
) -> Iterator[Any]:
    total = next(iterable, _MISSING) if initial is None else initial
    if total is _MISSING:
        return
    yield total
    for item in iterable:
        total = total + item if func is None else func(total, item)
        yield total


def starmap(function: Callable[..., T], iterable: Iterable[Iterable[object]], /) -> Iterator[T]:
    for args in iterable:
        yield function(*args)


def takewhile(predicate: Callable[[T], object], iterable: Iterable[T], /) -> Iterator[T]:
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Callable[[T], object], iterable: Iterable[T], /) -> Iterator[T]:
    drops = True
    for item in iterable:
        drops = drops and bool(predicate(item))
        if not drops:
            yield item


def filterfalse(predicate: Callable[[T], object] | None, iterable: Iterable[T], /) -> Iterator[T]:
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


def compress(data: Iterable[T], selectors: Iterable[object]) -> Iterator[T]:
    for item, selector in zip(data, selectors):
        if selector:
            yield item


def tee(iterator: Iterator[T], link: list[Any]) -> Iterator[T]:
    """One of the iterators. ``link``: a list that they share, which the first to get there fills with the next item
    and the next such list."""
    while True:
        if not link:
            item: Any = next(iterator, _MISSING)
            if item is _MISSING:
                return
            link += [item, []]
        item, link = link
        yield item


def groupby(iterable: Iterator[T], key: Callable[[T], object] | None = None) -> Iterator[tuple[object, Iterator[T]]]:
    state: list[Any] = [_MISSING, _MISSING, None]  # the item that was read ahead, its key, what marks the current group
    target: object = _MISSING
    while True:
        state[2] = None
        while state[1] is _MISSING or [target] == [state[1]]:
            if not _read_ahead(iterable, key, state):
                return
        target = state[1]
        state[2] = []
        yield target, _group(iterable, key, state, target, state[2])


def _read_ahead(iterable: Iterator[T], key: Callable[[T], object] | None, state: list[Any]) -> bool:
    """Whether there is another item."""
    item: Any = next(iterable, _MISSING)
    if item is _MISSING:
        return False
    state[1] = item if key is None else key(item)
    state[0] = item
    return True


def _group(
    iterable: Iterator[T], key: Callable[[T], object] | None, state: list[Any], target: object, mark: object
) -> Iterator[T]:
    while state[2] is mark:
        if state[0] is _MISSING and not _read_ahead(iterable, key, state):
            return
        if not [target] == [state[1]]:
            return
        item = state[0]
        state[0] = _MISSING
        yield item


def zip_longest(*iterables: Iterator[object], fillvalue: object = None) -> Iterator[tuple[object, ...]]:
    iterators: list[Iterator[object] | None] = list(iterables)
    active = len(iterators)
    while active:
        row = []
        for at, iterator in enumerate(iterators):
            item = fillvalue if iterator is None else next(iterator, _MISSING)
            if item is _MISSING:
                iterators[at] = None
                active -= 1
                if not active:
                    return
                item = fillvalue
            row.append(item)
        yield tuple(row)
