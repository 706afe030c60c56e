"""Constructs of plain Python that break the graph, each with a reason of its own."""

from __future__ import annotations

import time
import weakref

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight import break_reasons as reasons
from programs import tensor


def changes_a_function(x):
    def scale(y, factor=2):
        return y * factor

    def other(y):
        return y

    scale.__code__ = other.__code__
    return scale(x + 1)


def reads_the_clock(x):
    began = time.perf_counter()
    y = x + 1
    return y, began <= time.perf_counter()


def reads_a_file(x):
    with open(__file__) as file:
        return x + len(file.readline())


class Box:
    pass


def uses_an_address(x):
    return x + 1, id(x) > 0


def calls_a_weak_reference_late(x):
    box = Box()
    reference = weakref.ref(box)
    del box
    return x + 1, reference() is None


ROWS = [
    (uses_an_address, reasons.AddressUsed),
    (calls_a_weak_reference_late, reasons.ReferentMayBeDead),
    (changes_a_function, reasons.FunctionChanged),
    (reads_the_clock, reasons.ClockRead),
    (reads_a_file, reasons.FileAccess),
]


@pytest.mark.parametrize("fn, row", ROWS, ids=lambda each: each.__name__)
def test_reason(fn, row):
    expected = fn(tensor(3))
    torch.testing.assert_close(dl.compile(fn, backend="eager")(tensor(3)), expected, rtol=0, atol=0)
    dl.reset()
    with pytest.raises(dl.exc.Unsupported) as caught:
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3))
    assert isinstance(caught.value.reason, row)


def test_an_iterator_over_a_mutated_list():
    def fn(x, numbers, iterator):
        numbers.append(3)
        return x + next(iterator), next(iterator)

    def call(compiled):
        numbers = [1, 2]
        iterator = iter(numbers)
        next(iterator)
        return compiled(tensor(3), numbers, iterator)

    torch.testing.assert_close(call(dl.compile(fn, backend="eager")), call(fn))
    dl.reset()
    with pytest.raises(dl.exc.Unsupported) as caught:
        call(dl.compile(fn, backend="eager", fullgraph=True))
    assert isinstance(caught.value.reason, reasons.MutatedWhileIterated)
