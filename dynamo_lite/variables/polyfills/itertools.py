"""Polyfills of ``itertools``, as generators.

Callers pass iterators where CPython's constructors call ``iter()`` on an argument. None of them has a ``try``: an
exception that propagates out of one breaks the graph.
"""

from __future__ import annotations

from typing import Any

_MISSING = object()


def chain(*iterables: Any) -> Any:
    for iterable in iterables:
        yield from iterable


def from_iterable(iterable: Any, /) -> Any:
    for each in iterable:
        yield from each


def cycle(iterable: Any, /) -> Any:
    saved = []
    for item in iterable:
        saved.append(item)
        yield item
    while saved:
        for item in saved:
            yield item


def islice(iterable: Any, start: int, stop: int | None, step: int) -> Any:
    """``itertools.islice``. It consumes ``max(start, stop)`` items in all, as CPython's does."""
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


def pairwise(iterable: Any, /) -> Any:
    before = next(iterable, _MISSING)
    if before is _MISSING:
        return
    for item in iterable:
        yield before, item
        before = item


def batched(iterable: Any, n: int, *, strict: bool = False) -> Any:
    batch = []
    for item in iterable:
        batch.append(item)
        if len(batch) == n:
            yield tuple(batch)
            batch = []
    if batch:
        if strict:
            raise ValueError("batched(): incomplete batch")
        yield tuple(batch)


def count(start: Any = 0, step: Any = 1) -> Any:
    while True:
        current = start
        start = start + step
        yield current


def repeat(object: Any, times: int | None = None) -> Any:
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


def accumulate(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    total = next(iterable, _MISSING) if initial is None else initial
    if total is _MISSING:
        return
    yield total
    for item in iterable:
        total = total + item if func is None else func(total, item)
        yield total


def starmap(function: Any, iterable: Any, /) -> Any:
    for args in iterable:
        yield function(*args)


def takewhile(predicate: Any, iterable: Any, /) -> Any:
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Any, iterable: Any, /) -> Any:
    drops = True
    for item in iterable:
        drops = drops and bool(predicate(item))
        if not drops:
            yield item


def filterfalse(predicate: Any, iterable: Any, /) -> Any:
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


def compress(data: Any, selectors: Any) -> Any:
    for item, selector in zip(data, selectors):
        if selector:
            yield item


def zip_longest(*iterables: Any, fillvalue: Any = None) -> Any:
    iterators = list(iterables)
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
