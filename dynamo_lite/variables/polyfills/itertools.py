"""The module ``itertools``."""

from __future__ import annotations

import itertools
from typing import Any

_MISSING = object()


def chain(*iterables: Any) -> Any:
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(iterables: Any) -> Any:
    for iterable in iterables:
        yield from iterable


def islice(iterable: Any, *args: Any) -> Any:
    limits = slice(*args)
    start, stop, step = limits.start or 0, limits.stop, limits.step or 1
    if stop is not None and stop <= 0:
        return
    wanted = start
    for at, item in enumerate(iterable):
        if stop is not None and at >= stop:
            return
        if at == wanted:
            yield item
            wanted += step
        if stop is not None and at + 1 >= stop:
            return


def accumulate(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    total = initial
    started = initial is not None
    if started:
        yield total
    for item in iterable:
        if not started:
            total, started = item, True
        else:
            total = total + item if func is None else func(total, item)
        yield total


def product(*iterables: Any, repeat: int = 1) -> Any:
    pools = [tuple(pool) for pool in iterables] * repeat
    result: list[list[Any]] = [[]]
    for pool in pools:
        result = [[*row, item] for row in result for item in pool]
    for row in result:
        yield tuple(row)


def combinations(iterable: Any, r: int) -> Any:
    pool = tuple(iterable)
    for indices in _combinations_of(tuple(range(len(pool))), r):
        yield tuple([pool[at] for at in indices])


def _combinations_of(pool: Any, r: int) -> Any:
    if r == 0:
        return [()]
    found = []
    for at in range(len(pool) - r + 1):
        for rest in _combinations_of(pool[at + 1 :], r - 1):
            found.append((pool[at], *rest))
    return found


def permutations(iterable: Any, r: Any = None) -> Any:
    pool = tuple(iterable)
    count = len(pool) if r is None else r
    for row in product(range(len(pool)), repeat=count):
        if len(frozenset(row)) == count:
            yield tuple([pool[at] for at in row])


def repeat(item: Any, times: Any = None) -> Any:
    if times is None:
        while True:
            yield item
    for _ in range(times):
        yield item


def count(start: Any = 0, step: Any = 1) -> Any:
    while True:
        yield start
        start = start + step


def cycle(iterable: Any) -> Any:
    saved = list(iterable)
    while saved:
        yield from saved


def starmap(function: Any, iterable: Any) -> Any:
    for args in iterable:
        yield function(*args)


def takewhile(predicate: Any, iterable: Any) -> Any:
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Any, iterable: Any) -> Any:
    dropping = True
    for item in iterable:
        if dropping and predicate(item):
            continue
        dropping = False
        yield item


def zip_longest(*iterables: Any, fillvalue: Any = None) -> Any:
    pools = [list(each) for each in iterables]
    longest = max([len(pool) for pool in pools], default=0)
    for at in range(longest):
        yield tuple([pool[at] if at < len(pool) else fillvalue for pool in pools])


def pairwise(iterable: Any) -> Any:
    previous = _MISSING
    for item in iterable:
        if previous is not _MISSING:
            yield previous, item
        previous = item


def compress(data: Any, selectors: Any) -> Any:
    for item, selected in zip(data, selectors):
        if selected:
            yield item


def filterfalse(predicate: Any, iterable: Any) -> Any:
    for item in iterable:
        if not (item if predicate is None else predicate(item)):
            yield item


TABLE: dict[Any, Any] = {
    itertools.chain: chain,
    itertools.islice: islice,
    itertools.accumulate: accumulate,
    itertools.product: product,
    itertools.combinations: combinations,
    itertools.permutations: permutations,
    itertools.repeat: repeat,
    itertools.count: count,
    itertools.cycle: cycle,
    itertools.starmap: starmap,
    itertools.takewhile: takewhile,
    itertools.dropwhile: dropwhile,
    itertools.zip_longest: zip_longest,
    itertools.pairwise: pairwise,
    itertools.compress: compress,
    itertools.filterfalse: filterfalse,
}
