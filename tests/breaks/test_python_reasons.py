"""Constructs of plain Python that break the graph, each with a reason of its own."""

from __future__ import annotations

import copy
import enum
import random
import time
import weakref
from collections import OrderedDict, deque
from typing import Protocol, runtime_checkable

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.insight import break_reasons as reasons
from programs import tensor


def changes_a_function(x):
    def scale(y, factor=2):
        return y * factor

    scale.__defaults__ = (3,)
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


class Finalized:
    def __del__(self):
        pass


class Color(enum.Enum):
    RED = 1


@runtime_checkable
class Scaled(Protocol):
    scale: int


class Scales:
    def __init__(self):
        self.scale = 3


def uses_an_address(x):
    return x + 1, id(x) > 0


BOX, CALLS = Box(), []
REFERENCE = weakref.ref(BOX)


def calls_a_weak_reference_late(x):
    CALLS.append(1)
    return x + 1, REFERENCE() is None


def creates_an_object_with_a_finalizer(x):
    made = Finalized()
    return x + 1, type(made)


def calls_an_enum_with_an_object(x):
    try:
        return x, Color([x])
    except (ValueError, RuntimeError) as error:
        return x + 1, type(error)


def checks_a_protocol(x):
    return x + 1, isinstance(Scales(), Scaled)


def takes_a_deque_apart(x):
    queue = deque([1, 2, 3])
    return x + len(queue.__reduce__())


def moves_keys_in_a_loop_over_them(x):
    table = OrderedDict(a=1, b=2)
    try:
        for each in table:
            table.move_to_end(each)
    except RuntimeError:
        return x + len(table)


class Copied:
    def __init__(self):
        self.file = iter("ab")


COPIED = Copied()
NAMES: dict[str, object] = {}


def compares_a_namespace(x):
    return x + 1, vars(COPIED) is NAMES


def copies_an_iterator(x):
    return x + 1, next(copy.deepcopy(COPIED.file))


def shows_an_object(x):
    return x + 1, len(str(COPIED)) > 0


class Subclass(torch.Tensor):
    pass


def checks_a_legacy_tensor_type(x):
    return x + 1, isinstance(x.as_subclass(Subclass), torch.FloatTensor)


def creates_an_error_with_fields(x):
    error = OSError(2, "no such file")
    return x + 1, type(error).__name__


class Stops(StopIteration):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)


def replaces_what_an_error_in_c_stores(x):
    error = Stops(1)
    error.value = x
    return x + 1, error.value, error.args


def deletes_what_an_error_in_c_stores(x):
    error = StopIteration(x)
    del error.value
    return x + 1, error.value, error.args


def draws_from_an_empty_range(x):
    try:
        return x + random.randint(5, 1)
    except ValueError:
        return x + 1


ROWS = [
    (copies_an_iterator, reasons.CopyOfValue),
    (creates_an_error_with_fields, reasons.ExceptionState),
    (replaces_what_an_error_in_c_stores, reasons.ExceptionState),
    (deletes_what_an_error_in_c_stores, reasons.ExceptionState),
    (draws_from_an_empty_range, reasons.RandomCall),
    (creates_an_object_with_a_finalizer, reasons.NotCreated),
    (calls_an_enum_with_an_object, reasons.NotCreated),
    (checks_a_protocol, reasons.ProtocolCheck),
    (uses_an_address, reasons.AddressUsed),
    (calls_a_weak_reference_late, reasons.ReferentMayBeDead),
    (changes_a_function, reasons.AttributeChange),
    (reads_the_clock, reasons.ClockRead),
    (reads_a_file, reasons.FileAccess),
    (takes_a_deque_apart, reasons.UnsupportedMethod),
    (moves_keys_in_a_loop_over_them, reasons.ChangedDuringIteration),
    (compares_a_namespace, reasons.UnsupportedOperation),
    (shows_an_object, reasons.TextWithAddress),
    (checks_a_legacy_tensor_type, reasons.LegacyTensorType),
]


@pytest.mark.parametrize("fn, row", ROWS, ids=lambda each: each.__name__)
def test_reason(fn, row):
    assert str(dl.compile(fn, backend="eager")(tensor(3))) == str(fn(tensor(3)))
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
    assert isinstance(caught.value.reason, reasons.ChangedDuringIteration)


def test_a_loop_with_a_break_over_modules_that_write_an_attribute_of_a_tensor():
    """The loop iterates over a dict, and the attributes of a tensor are another."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("zero", torch.zeros(()))

        def forward(self, x):
            x = x * 2
            dl.graph_break()
            return x + 1, self.zero.requires_grad_()

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Layer() for _ in range(3))

        def forward(self, x):
            loss = 0
            for layer in self.layers:
                x, more = layer(x)
                loss = loss + more
            return x, loss

    model, x = Layers(), tensor(2, 3)
    explained = dl.explain(model)(x)
    assert (explained.graph_count, explained.break_times) == (4, [3])
    torch.testing.assert_close(dl.compile(model, backend="eager")(x), model(x))
