"""Polyfills of ``heapq``, after its Python version. As in C, the list has all its items at each comparison, which may
raise."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any


def heappush(heap: list[Any], item: object, /) -> None:
    heap.append(item)
    _sift_down(heap, 0, len(heap) - 1)


def heappop(heap: list[Any], /) -> Any:
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    return heapreplace(heap, last) if heap else last


def heapreplace(heap: list[Any], item: object, /) -> Any:
    if not heap:
        raise IndexError("index out of range")
    smallest = heap[0]
    heap[0] = item
    _sift_up(heap, 0)
    return smallest


def heappushpop(heap: list[Any], item: object, /) -> Any:
    return heapreplace(heap, item) if heap and heap[0] < item else item


def heapify(heap: list[Any], /) -> None:
    for at in reversed(range(len(heap) // 2)):
        _sift_up(heap, at)


def _sift_down(heap: list[Any], start: int, at: int) -> None:
    item = heap[at]
    while at > start:
        parent = (at - 1) >> 1
        if not item < heap[parent]:
            break
        heap[at], heap[parent] = heap[parent], item
        at = parent


def _sift_up(heap: list[Any], at: int) -> None:
    """Move the smaller child up until a leaf is reached, then the item that was at the position to its place."""
    end, start = len(heap), at
    child = 2 * at + 1
    while child < end:
        right = child + 1
        if right < end and not heap[child] < heap[right]:
            child = right
        heap[at], heap[child] = heap[child], heap[at]
        at = child
        child = 2 * at + 1
    _sift_down(heap, start, at)


OF_HEAPS: dict[Callable[..., Any], Callable[..., Any]] = {
    heapq.heapify: heapify,
    heapq.heappop: heappop,
    heapq.heappush: heappush,
    heapq.heappushpop: heappushpop,
    heapq.heapreplace: heapreplace,
}
"""The first argument must be a list. C's functions don't call methods that its class overrides."""
