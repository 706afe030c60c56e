"""The modules heapq and bisect: their results, and what they compare with what."""

from __future__ import annotations

import bisect
import functools
import heapq

import pytest

from programs import check, tensor
from table import Table

programs = Table()
COMPARED: list = []


@functools.total_ordering
class Item:
    """Tells what it is compared with."""

    def __init__(self, rank):
        self.rank = rank

    def __lt__(self, other):
        COMPARED.append((self.rank, other.rank))
        return self.rank < other.rank

    def __eq__(self, other):
        return self.rank == other.rank

    __hash__ = None


@programs(tensor(3))
def a_heap_of_objects(x):
    COMPARED.clear()
    heap = [Item(rank) for rank in (5, 3, 8, 1, 9, 2, 7)]
    heapq.heapify(heap)
    heapq.heappush(heap, Item(0))
    heapq.heappush(heap, Item(4))
    ranks = [heapq.heappop(heap).rank for _ in range(4)]
    ranks += [heapq.heappushpop(heap, Item(6)).rank, heapq.heapreplace(heap, Item(1)).rank]
    return x + 1, ranks, [item.rank for item in heap], list(COMPARED)


@programs(tensor(3))
def functions_on_heaps(x):
    found = heapq.nsmallest(2, [4, 1, 3]), heapq.nlargest(2, [4, 1, 3]), heapq.nlargest(2, "abc", key=ord)
    merged = list(heapq.merge([1, 4], [2, 3])), list(heapq.merge([4, 1], [3, 2], reverse=True))
    texts = []
    for each in (lambda: heapq.heappop([]), lambda: heapq.heapreplace([], 1)):
        try:
            each()
        except IndexError as error:
            texts.append(str(error))
    return x + 1, found, merged, texts, heapq.heappushpop([], 1)


@programs(tensor(3))
def tensors_by_rank(x):
    heap = []
    for at in range(x.shape[0]):
        heapq.heappush(heap, (-at, at, x[at]))
    return heapq.heappop(heap)[2] * 2, len(heap)


@programs(tensor(3), [(0.7, 1), (0.9, 2)])
def a_heap_that_is_an_argument(x, heap):
    heapq.heappush(heap, (0.5, 3))
    rank, at = heapq.heappop(heap)
    return x * rank, at


@programs(tensor(3))
def places_in_order(x):
    row = [1, 3, 3, 5]
    found = bisect.bisect(row, 3), bisect.bisect_left(row, 3), bisect.bisect(row, 3, 0, 2), bisect.bisect(row, 3, hi=-1)
    keyed = bisect.bisect_left(row, -3, key=lambda each: -each), bisect.bisect("abc", "b"), bisect.bisect(range(9), 4)
    try:
        bisect.bisect(row, 1, -1)
    except ValueError as error:
        return x + 1, found, keyed, str(error)


@programs(tensor(3))
def put_in_order(x):
    COMPARED.clear()
    row, items = [1, 3], [Item(1), Item(5)]
    bisect.insort(row, 2)
    bisect.insort_left(row, 2.0)
    bisect.insort(row, -9, key=abs)
    bisect.insort(items, Item(3))
    return x + 1, row, [item.rank for item in items], list(COMPARED)


@pytest.mark.parametrize("case", programs.parameters())
def test_program(case):
    case.run()


class Listed(list):
    def __getitem__(self, at):
        return 0


def test_what_is_no_plain_list():
    def fn(x):
        heap = Listed([3, 1, 2])
        heapq.heapify(heap)
        try:
            heapq.heappush((1,), 1)
        except TypeError as error:
            return x + 1, list(heap), str(error)

    check(fn, tensor(3), graphs=None)
