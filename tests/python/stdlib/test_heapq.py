"""The modules heapq and bisect: their results."""

from __future__ import annotations

import bisect
import heapq

from collector import Programs
from outcomes import outcome, outcomes
from programs import tensor

programs = Programs()


@programs(tensor(3))
def functions_on_heaps(x):
    found = heapq.nlargest(2, [4, 1, 3]), heapq.nlargest(2, "abc", key=ord)
    merged = list(heapq.merge([1, 4], [2, 3]))
    texts = outcomes(lambda: heapq.heappop([]), lambda: heapq.heapreplace([], 1))
    return x + 1, found, merged, texts, heapq.heappushpop([], 1)


@programs(tensor(3))
def tensors_by_rank(x):
    heap = []
    for at in range(x.shape[0]):
        heapq.heappush(heap, (-at, at, x[at]))
    return heapq.heappop(heap)[2] * 2, len(heap)


@programs(tensor(3), graphs=None)
def places_in_order(x):
    row = [1, 3, 3, 5]
    found = bisect.bisect(row, 3), bisect.bisect_left(row, 3), bisect.bisect(row, 3, 0, 2), bisect.bisect(row, 3, hi=-1)
    keyed = bisect.bisect_left(row, -3, key=lambda each: -each), bisect.bisect("abc", "b"), bisect.bisect(range(9), 4)
    return x + 1, found, keyed, outcome(bisect.bisect, row, 1, -1)


class Ranked(list):
    pass


@programs(tensor(3), [5, 1, 4, 2, 3])
def heap_from_outside(x, heap):
    heapq.heapify(heap)
    found = heapq.heappushpop(heap, 0), heapq.heappushpop(heap, 3), heapq.heapreplace(heap, 9)
    texts = outcomes(lambda: heapq.heappop([]), lambda: heapq.heapreplace([], 1))
    return x + heap[0], found, heap[:], [heapq.heappop(heap) for _ in range(3)], texts


@programs(tensor(3), graphs=None)
def heaps_of_other_classes(x):
    heap = Ranked([3, 1])
    heapq.heapify(heap)
    down = list(heapq.merge([4, 1], [3, 2], reverse=True)), heapq.nsmallest(2, [4, 1, 3])
    return x + heap[0], outcome(heapq.heappush, (1,), 2), outcome(heapq.heappush, heap, "a"), heap, down


test_program = programs.test()
