"""Objects with finalizers, or with callbacks of weak references, are deallocated where they are in eager."""

from __future__ import annotations

import contextlib
import weakref

import pytest

import dynamo_lite as dl
from dynamo_lite.translator import observable_lifetimes
from equality import Difference
from programs import tensor
from table import Table

programs = Table()
delayed = Table()
LOG: list[object] = []


class Dies:
    def __init__(self, n):
        self.n = n

    def __del__(self):
        LOG.append(self.n)


class Thing:
    pass


def begin(x):
    LOG.clear()
    return x + 1


@programs(tensor(2), graphs=None, recompiles=True)
def a_variable_is_written(x):
    x = begin(x)
    one = Dies(1)
    x = x + len(LOG)
    one = Dies(2)
    x = x * len(LOG)
    one = None
    return x + len(LOG), list(LOG), one


@programs(tensor(2), graphs=None, recompiles=True)
def a_loop_lets_go_of_what_it_made_before(x):
    x = begin(x)
    for at in range(3):
        one = Dies(at)
        x = x + len(LOG)
    return x, list(LOG), one.n


@delayed(tensor(2), graphs=None, recompiles=True)
def a_list_is_dropped_from_its_end(x):
    x = begin(x)
    items = [Dies(1), Dies(2), Dies(3)]
    x = x + len(LOG)
    del items[1]
    x = x + len(LOG)
    items = None
    return x + len(LOG), list(LOG), items


@programs(tensor(2), graphs=None, recompiles=True)
def a_list_is_cleared(x):
    x = begin(x)
    one = Dies(1)
    items = [one, Dies(2)]
    one = None
    x = x + len(LOG)
    items.clear()
    return x + len(LOG), list(LOG), one


@programs(tensor(2), graphs=None, recompiles=True)
def attributes_are_written_and_deleted(x):
    x = begin(x)
    thing = Thing()
    thing.held = Dies(1)
    x = x + len(LOG)
    thing.held = 3
    x = x + len(LOG)
    thing.held = Dies(2)
    del thing.held
    x = x + len(LOG)
    thing.deep = {"k": (Dies(3), [Dies(4)])}
    thing = None
    return x + len(LOG), list(LOG), thing


@programs(tensor(2), graphs=None, recompiles=True)
def a_temporary_object(x):
    x = begin(x)
    x = x * Dies(5).n
    x = x + len(LOG)
    (Dies(6), x)
    x = x + len(LOG)
    for _ in [Dies(7), Dies(8)]:
        x = x * len(LOG)
    return x + len(LOG), list(LOG)


@programs(tensor(2), graphs=None, recompiles=True)
def a_callee_has_it_last(x):
    def use(one):
        items = [one]
        return len(items) * one.n

    x = begin(x)
    x = x * use(Dies(3))
    return x + len(LOG), list(LOG)


@programs(tensor(2), graphs=None, recompiles=True)
def a_closure_has_it(x):
    x = begin(x)
    one = Dies(1)

    def use():
        return one.n

    x = x + use() + len(LOG)
    del use
    x = x + len(LOG)
    one = None
    return x + len(LOG), list(LOG)


@programs(tensor(2), graphs=None, recompiles=True)
def a_generator_has_it(x):
    def items(one):
        yield one.n
        yield 2

    x = begin(x)
    it = items(Dies(1))
    x = x + next(it) + len(LOG)
    it = None
    return x + len(LOG), list(LOG), it


@delayed(tensor(2), graphs=None, recompiles=True)
def a_traceback_has_it(x):
    def fails(one):
        raise ValueError(3)

    x = begin(x)
    try:
        fails(Dies(1))
    except ValueError as error:
        x = x + len(LOG) + error.args[0]
    return x + len(LOG), list(LOG)


@programs(tensor(2), graphs=None, recompiles=True)
def a_callback_of_a_weak_reference(x):
    x = begin(x)
    thing = Thing()
    ref = weakref.ref(thing, lambda ref: LOG.append(1))
    items = [thing]
    thing = None
    x = x + len(LOG)
    items = None
    return x + len(LOG), ref() is None, thing, items


@programs(tensor(2), graphs=None, recompiles=True)
def a_finalizer_by_weakref(x):
    x = begin(x)
    thing = Thing()
    held = weakref.finalize(thing, LOG.append, 1)
    x = x + len(LOG)
    thing = None
    return x + len(LOG), held.alive, thing


@programs(tensor(2), graphs=None, recompiles=True)
def a_cell_is_written_by_a_callee(x):
    x = begin(x)
    one = Dies(1)

    def write():
        nonlocal one
        one = Dies(2)
        return len(LOG)

    return x + write() + len(LOG), list(LOG), one.n


@programs(tensor(2), graphs=None, recompiles=True)
def a_frame_that_is_over_does_not_hold_it(x):
    def make(one):
        n = one.n

        def use():
            return n

        return use

    x = begin(x)
    use = make(Dies(1))
    return x * use() + len(LOG), list(LOG)


test_deaths = programs.test()


@pytest.mark.parametrize("case", delayed.parameters())
def test_deaths_of_what_a_container_alone_holds(case):
    """A stated limit: only what is dropped is looked at, not what it holds. That dies after the graph in one piece of
    code, and as in eager where the graph breaks in between."""
    with contextlib.nullcontext() if case.cut else pytest.raises(Difference):
        case.run()


FOUND = [Thing(), Thing()]


def test_what_is_held_elsewhere_breaks_nothing():
    """A loop variable drops references to objects with finalizers that stay alive."""
    seen = []
    refs = [weakref.ref(each, seen.append) for each in FOUND]

    def fn(x):
        for each in FOUND:
            x = x * (1 + len(vars(each)))
        each = None
        return x, each

    before = dl.counters.graph_breaks
    result, _ = dl.compile(fn, backend="eager", fullgraph=True)(tensor(2))
    assert (result == tensor(2)).all() and not seen and all(ref() is not None for ref in refs)
    assert dl.counters.graph_breaks == before


def test_what_guards_watch_breaks_nothing():
    """References to objects that another compilation guards are dropped."""

    def fn(x, thing):
        held = thing is FOUND[0] or thing is FOUND[1]
        thing = None
        return x * (2 if held else 3), thing

    compiled = dl.compile(fn, backend="eager", fullgraph=True)
    for thing in (*FOUND, Thing(), *FOUND):
        assert (compiled(tensor(2), thing)[0] == fn(tensor(2), thing)[0]).all()


def test_the_cost_of_an_argument_that_may_die(monkeypatch):
    """It is still in its variable: nobody walks through what the others have in them at each step."""
    walked = 0

    def counted(*args):
        nonlocal walked
        for each in references(*args):
            walked += 1
            yield each

    references = observable_lifetimes.references
    monkeypatch.setattr(observable_lifetimes, "references", counted)

    def fn(x, one, items):
        found = [item for item in items if item["n"] != 1]
        for item in found:
            x = x + item["n"]
        return x, one

    def cost(length):
        nonlocal walked
        walked = 0
        given = [{"n": n} for n in range(length)]
        compiled = dl.compile(fn, backend="eager")
        assert (compiled(tensor(2), Dies(1), given)[0] == fn(tensor(2), None, given)[0]).all()
        return walked

    assert cost(40) < 3 * cost(20)
