"""Polyfills of ``heapq``: the same comparisons, in the same order, as the C code makes."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any


def heappush(heap: Any, item: Any, /) -> None:
    heap.append(item)
    _rise(heap, 0, len(heap) - 1, _less)


def heappop(heap: Any, /) -> Any:
    return _pop(heap, _less)


def heapreplace(heap: Any, item: Any, /) -> Any:
    return _replace(heap, item, _less)


def heappushpop(heap: Any, item: Any, /) -> Any:
    if heap and heap[0] < item:
        return _replace(heap, item, _less)
    return item


def heapify(heap: Any, /) -> None:
    _heapify(heap, _less)


def heapify_max(heap: Any, /) -> None:
    _heapify(heap, _more)


def heappop_max(heap: Any, /) -> Any:
    return _pop(heap, _more)


def heapreplace_max(heap: Any, item: Any, /) -> Any:
    return _replace(heap, item, _more)


def _less(one: Any, other: Any) -> Any:
    return one < other


def _more(one: Any, other: Any) -> Any:
    return other < one


def _heapify(heap: Any, before: Any) -> None:
    for at in reversed(range(len(heap) // 2)):
        _sink(heap, at, before)


def _pop(heap: Any, before: Any) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    return _replace(heap, last, before) if heap else last


def _replace(heap: Any, item: Any, before: Any) -> Any:
    if not heap:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _sink(heap, 0, before)
    return first


def _rise(heap: Any, first: Any, at: Any, before: Any) -> None:
    while at > first:
        above = (at - 1) >> 1
        if not before(heap[at], heap[above]):
            return
        heap[at], heap[above] = heap[above], heap[at]
        at = above


def _sink(heap: Any, first: Any, before: Any) -> None:
    """Move an item down to a leaf along the smaller children, then up to its place."""
    at, end = first, len(heap)
    while 2 * at + 1 < end:
        below = 2 * at + 1
        if below + 1 < end and not before(heap[below], heap[below + 1]):
            below += 1
        heap[at], heap[below] = heap[below], heap[at]
        at = below
    _rise(heap, first, at, before)


TABLE: dict[Callable[..., Any], Callable[..., Any]] = {
    heapq.heappush: heappush,
    heapq.heappop: heappop,
    heapq.heapify: heapify,
    heapq.heapreplace: heapreplace,
    heapq.heappushpop: heappushpop,
}
"""For exact lists only: the C code rejects other types, and bypasses overridden methods of subclasses."""

for _name, _function in (
    ("heapify_max", heapify_max),
    ("heappop_max", heappop_max),
    ("heapreplace_max", heapreplace_max),
):
    if hasattr(heapq, "_" + _name):
        TABLE[getattr(heapq, "_" + _name)] = _function
