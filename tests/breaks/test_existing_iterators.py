"""Pre-existing iterators and views whose items the compiled function takes."""

from __future__ import annotations

import itertools
import sys
from collections import Counter, OrderedDict

import pytest

import dynamo_lite as dl
from programs import Program, Recorder, built, check, checked, recompiling, repeated, tensor


class Numbered:
    """Gives its calls numbers."""

    def __init__(self, ids):
        self.ids = ids


def test_a_count_in_an_attribute():
    recorder = Recorder()

    def fn(of, x):
        one, other = next(of.ids), next(of.ids)
        return x + other, one

    of, other = Numbered(itertools.count(3)), Numbered(itertools.count(3))
    compiled = dl.compile(fn, backend=recorder, fullgraph=True)
    for _ in range(4):
        found, expected = compiled(of, tensor(3)), fn(other, tensor(3))
        assert found[1] == expected[1] and (found[0] == expected[0]).all()
    assert len(recorder.graphs) == 2  # the second one is for any number
    assert next(of.ids) == next(other.ids) == 11


@pytest.mark.parametrize("make", [enumerate, lambda it: zip(it, itertools.count(1))])
def test_numbered_pairs(make):
    def build():
        pairs = make(itertools.count(5))
        return lambda x: (x * next(pairs)[1], pairs)

    check(Program(build, is_built=True, recompiles=True, fullgraph=True), tensor(3))


@pytest.mark.parametrize("given", [(0.5,), (1, 2), (sys.maxsize - 1,), (-2,)])
def test_other_counts(given):
    it, other = itertools.count(*given), itertools.count(*given)
    expected = [next(other) for _ in range(4)]
    compiled = dl.compile(lambda x: (x + 1, next(it)), backend="eager")
    assert [compiled(tensor(2))[1] for _ in range(4)] == expected


@checked(tensor(3), 3, graphs=None, others=[(tensor(4), 5)])
def test_a_loop_over_a_count_that_breaks(x, n):
    for at in itertools.count():
        x = x * 2 + at
        dl.graph_break()
        if at == n:
            return x


@pytest.mark.parametrize("kind", [dict, OrderedDict, Counter])
@pytest.mark.parametrize("name", ["keys", "values", "items"])
def test_views(kind, name):
    table = kind(a=1, b=2)
    view = getattr(table, name)()

    def build():
        def fn(x):
            total = x
            for each in view:
                total = total + len(each) if name != "values" else total + each
            return total, [*view], len(view), next(iter(view)), view

        return fn

    whole = 1 if kind is not Counter else (1, 3)
    check(built(build), tensor(3), graphs=whole, breaks=0 if whole == 1 else None)


@checked(tensor(3))
@built
@repeated(1)
def test_a_view_of_what_is_written():
    table = {"a": 1}
    values = table.values()

    def fn(x):
        before = sum(values)
        table["b"] = x
        return before, [*values], table, x + 1

    return fn


def test_views_of_tensors():
    def fn(x, values):
        return x + next(iter(values)), sum(values)

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, fullgraph=True)
    for size in (2, 3, 4, 5):
        table = {"a": tensor(size, grad=True), "b": tensor(size, seed=1)}
        found = compiled(tensor(size), table.values())
        assert [each.tolist() for each in found] == [each.tolist() for each in fn(tensor(size), table.values())]
        found[0].sum().backward()
        assert table["a"].grad.tolist() == [1.0] * size
    assert len(recorder.graphs) == 2


@checked(tensor(2), [1, 2, 3], graphs=None)
@recompiling
def test_reversed_list_that_has_shrunk(x, items):
    backwards = reversed(items)
    items.pop()
    if x.sum() > -9:
        items += backwards
    return x + 1
