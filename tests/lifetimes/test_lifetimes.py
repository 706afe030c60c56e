"""Objects live as long as in eager: a variable keeps its object to the end of its function, also across breaks."""

from __future__ import annotations

import pathlib
import tempfile
import weakref

import pytest
import torch

import dynamo_lite as dl
from programs import checked, tensor

LOG: list[object] = []


class Finalized:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        LOG.append(self.name)


class Plain:
    pass


def run_both(fn, *makers):
    """Returns the log and the result of calls in eager and compiled."""
    found = []
    for run in (fn, dl.compile(fn, backend="eager")):
        for _ in range(2):
            LOG.clear()
            result = run(tensor(2), *(make() for make in makers))
            found.append((LOG.copy(), [each.tolist() if isinstance(each, torch.Tensor) else each for each in result]))
    assert found[2:] == found[:2]


@checked(tensor(2), graphs=None)
def test_a_variable_lives_to_the_end_of_its_function(x):
    folder = tempfile.TemporaryDirectory()
    path = pathlib.Path(folder.name)
    dl.graph_break()
    return x + path.exists(), path.exists()


@checked(tensor(2), graphs=None)
def test_a_weak_reference_to_a_variable_that_is_not_used_again(x):
    table = weakref.WeakValueDictionary()
    plain = Plain()
    table["plain"] = plain
    dl.graph_break()
    return x + len(table), len(table)


def test_an_argument_lives_to_the_end_of_its_function():
    def fn(x, argument):
        name = argument.name
        dl.graph_break()
        LOG.append("end")
        return x + 1, name

    run_both(fn, lambda: Finalized("argument"))


def test_a_variable_of_a_callee_lives_to_its_end():
    def inner(x):
        made = weakref.ref(kept := Plain())  # noqa: F841
        dl.graph_break()
        return x + (made() is not None)

    def fn(x):
        y = inner(x)
        dl.graph_break()
        return (y,)

    run_both(fn)


def waiting(n):
    try:
        yield from range(n)
    except ValueError:
        yield -1
    finally:
        LOG.append("left")


def _left_by_break(x):
    for each in waiting(3):
        if each == 1:
            break
        x = x * 2
    LOG.append("after")
    return (x,)


def _bound_to_something_else(x):
    generator = waiting(3)
    next(generator)
    LOG.append("before")
    generator = None
    LOG.append("after")
    return x + 1, generator


def _to_the_end(x):
    generator = waiting(3)
    next(generator)
    dl.graph_break()
    LOG.append("end")
    return (x + 1,)


def _not_bound(x):
    x = x + next(waiting(3))
    LOG.append("after")
    return (x,)


@pytest.mark.parametrize("fn", [_left_by_break, _bound_to_something_else, _to_the_end, _not_bound])
def test_generators_that_are_dropped_in_two_blocks(fn):
    run_both(fn)


class Watched:
    def __init__(self):
        self.value = 1

    def __getattribute__(self, name):
        LOG.append(name)
        return object.__getattribute__(self, name)


def test_only_attributes_that_eager_reads_are_read():
    def fn(x):
        watched = Watched()
        dl.graph_break()
        return x + watched.value, hasattr(watched, "absent")

    run_both(fn)
