"""Iterators that are created before a break and advanced after it."""

from __future__ import annotations

import warnings
from collections import deque

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import dynamo_lite as dl
from collector import Programs
from programs import check, tensor

programs = Programs()


def halves(x, n):
    for at in range(n):
        yield x / (at + 2)


@programs(tensor(3), 3, graphs=2, breaks=1)
def of_closures(x, n):
    scale = x + 1
    items = (scale * at for at in range(n))
    more = (item + scale for item in halves(x, n))
    print("here")
    return sum(items), list(more)


@programs(tensor(3), 3, graphs=2, breaks=1)
def a_variable_written_to_after_the_break(x, n):
    scale = x + 1
    items = (scale * at for at in range(n))
    print("here")
    scale = x * 2
    return sum(items)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("lengths", [(2, 2), (2, 3), (3, 2)])
def test_zip(strict, lengths):
    def fn(x, one, other):
        pairs = zip(halves(x, one), halves(x + 1, other), strict=strict)
        dl.graph_break()
        found = []
        try:
            for a, b in pairs:
                found.append(a * b)
        except ValueError as error:
            found.append(str(error))
        return found

    counts = (2, 1) if lengths == (2, 2) or not strict else (None, None)  # CPython raises the error of zip
    check(fn, tensor(3), *lengths, graphs=counts[0], breaks=counts[1])


@programs(tensor(3), graphs=None)
def left_half_way_and_taken_up_later(x):
    items = halves(x, 4)
    pairs = zip(items, (1, 2))
    dl.graph_break()
    y = [item * by for item, by in pairs]
    z = next(items, None)
    dl.graph_break()
    return y, z, next(items, None), next(pairs, None)


@programs(tensor(3), graphs=None)
def one_object_in_two_places(x):
    items = halves(x, 3)
    same = items
    held = [items]
    dl.graph_break()
    one = next(items)
    return one, next(same), next(held[0]), same is items, held[0] is items, next(items, None)


@programs(tensor(3), graphs=None)
def shared_by_two_iterators(x):
    items = halves(x, 4)
    pairs = zip(items, items)
    dl.graph_break()
    return [a + b for a, b in pairs]


def test_kept_by_what_breaks():
    kept = []

    def fn(x):
        items = halves(x, 3)
        warnings.warn("kept", stacklevel=1)
        kept.append(items)
        print("here")
        one = next(items)
        return one, next(kept.pop()), next(items)

    check(fn, tensor(3), graphs=None)


@programs(tensor(3), graphs=None)
def given_to_what_breaks(x):
    items = halves(x, 3)
    first = dl.disable(next)(items)
    return first, list(items)


class Box:
    def __init__(self, items=None):
        self.items = items


@programs(tensor(3), Box(), graphs=None)
def in_an_attribute(x, box):
    box.items = items = halves(x, 3)
    print("here")
    return next(box.items), next(items)


@programs(tensor(3), [1, 2], graphs=None)
def what_it_goes_over_changes_meanwhile(x, values):
    items = (x * value for value in values)
    print("here")
    values.append(5)
    return list(items)


@programs(tensor(3), graphs=None)
def begun_before(x):
    items = halves(x, 4)
    first = next(items)
    print("here")
    return first, list(items)


@programs(tensor(3), 1, others=[(tensor(3), 0)], graphs=1, breaks=1)
def never_gone_through(x, n):
    items = halves(x, 3)
    print("here")
    y = x + 1
    if n:
        return y
    return y, list(items)


def test_a_generator_that_leaves_effects():
    def told(log, x):
        try:
            log.append("begun")
            yield x
            yield x + 1
        finally:
            log.append("over")

    def fn(x):
        log = []
        items = told(log, x)
        dropped = told(log, x)
        print("here")
        dropped = None
        log.append(dropped)
        y = next(items)
        items.close()
        return y, log

    check(fn, tensor(3), graphs=None)


@programs(tensor(3), graphs=1, breaks=1)
def held_by_an_object(x):
    box = Box(halves(x, 3))
    print("here")
    return [item.sin() for item in box.items], type(box)


def averaged(**kwargs):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    return model, AveragedModel(model, **kwargs)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"use_buffers": True},
        {"multi_avg_fn": get_ema_multi_avg_fn(0.9)},
        {"avg_fn": lambda mean, new, count: 0.9 * mean + 0.1 * new},
    ],
    ids=["mean", "buffers", "ema", "function"],
)
def test_averages_of_weights(kwargs):
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    def run(compiled):
        model, average = averaged(**kwargs)
        update = compiled(average.update_parameters)
        states = []
        for step in range(4):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(step + 1)
            update(model)
            states.append({name: value.clone() for name, value in average.state_dict().items()})
        return states

    eager = run(lambda fn: fn)
    found = run(lambda fn: dl.compile(fn, backend=backend))
    for one, other in zip(eager, found, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert len(graphs) <= 6


@programs(tensor(3), 12, graphs=3)
def carried_over_several_breaks(x, n):
    items = halves(x, 3)
    for at in range(n):
        x = x + at
        print("here")
    return x, [item.sin() for item in items]


def test_the_type_of_what_goes_over_a_constant():
    def fn(x):
        text = iter("abé")
        numbers = iter(range(10**30))
        back = reversed(range(3))
        taken = next(text), next(text), next(numbers), next(back)
        y = x + 1
        return y, taken, type(text).__name__, text, numbers, back

    check(fn, tensor(3))
    assert type(dl.compile(fn, backend="eager")(tensor(3))[3]) is type(iter("é"))


MAKERS = {
    "a dict's values": (lambda held: held.update(z=2), lambda held: iter(held.values()), {"a": 5}),
    "a set": (lambda held: held.add(2), iter, {1}),
    "a deque": (lambda held: held.append(2), iter, deque([1])),
}


@pytest.mark.parametrize("name", MAKERS)
def test_iterator_in_a_cell_over_what_was_mutated(name):
    mutate, iterate, held = MAKERS[name]

    def fn(x, items, held):
        iterator = None

        def produce():
            yield 1
            mutate(held)

            def later():
                nonlocal iterator
                return iterator

            items.append(later)

        items.extend(produce())
        iterator = iterate(held)
        return x + 1, iterator

    check(fn, tensor(3), [], held, graphs=None)


test_program = programs.test()
