"""Finalizers of objects that captured code drops: they run, though after the graph, and cost no graph."""

from __future__ import annotations

import weakref

import pytest

import dynamo_lite as dl
from programs import Recorder, tensor


class Dies:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("dies")


class Thing:
    pass


class Slotted:
    __slots__ = ("held",)


HELD = None


def attribute_deleted(x, thing, log):
    log.append("before")
    del thing.held
    log.append("after")
    return x + 1


def attribute_written(x, thing, log):
    log.append("before")
    thing.held = None
    log.append("after")
    return x + 1


def attribute_replaced(x, thing, log):
    log.append("before")
    thing.held = x
    log.append("after")
    return x + 1


def attribute_taken(x, thing, log):
    log.append("before")
    thing.__dict__["held"] = 2
    log.append("after")
    return x + 1


def list_cleared(x, thing, log):
    log.append("before")
    thing.items.clear()
    log.append("after")
    return x + 1


def item_written(x, thing, log):
    log.append("before")
    thing.items[0] = 1
    log.append("after")
    return x + 1


def key_written(x, thing, log):
    log.append("before")
    thing.table["k"] = 1
    log.append("after")
    return x + 1


def global_written(x, thing, log):
    global HELD
    log.append("before")
    HELD = None
    log.append("after")
    return x + 1


def finalized(log):
    return Dies(log)


def watched(log):
    thing = Thing()
    WATCHES.append(weakref.ref(thing, lambda ref: log.append("callback")))
    return thing


def suspended(log):
    def waits():
        try:
            yield 1
        finally:
            log.append("closed")

    generator = waits()
    next(generator)
    return generator


def inside(log):
    return {"a": [(1, Dies(log))]}


WATCHES: list[object] = []


def run(fn, make, dropped_by):
    """Returns the log of three calls, of which the second drops the last reference to a watched object."""
    global HELD
    seen = []
    for create in (lambda log: 1, make, lambda log: 1):
        thing, log = Thing(), []
        held = create(log)
        if dropped_by is global_written:
            HELD = held
        elif dropped_by in (list_cleared, item_written):
            thing.items = [held]
        elif dropped_by is key_written:
            thing.table = {"k": held}
        else:
            thing.held = held
        del held
        seen.append((fn(tensor(2), thing, log).tolist(), sorted(log)))
    return seen


DROPS = [
    *(attribute_deleted, attribute_written, attribute_replaced, attribute_taken),
    *(list_cleared, item_written, key_written, global_written),
]


@pytest.mark.parametrize("make", [finalized, watched, suspended, inside])
@pytest.mark.parametrize("fn", DROPS)
def test_finalizer_has_run_when_the_call_returns(fn, make):
    recorder = Recorder()
    assert run(dl.compile(fn, backend=recorder, fullgraph=True), make, fn) == run(fn, make, fn)
    assert len(recorder.graphs) == 1


def test_slot_is_overwritten():
    recorder = Recorder()
    compiled = dl.compile(attribute_written, backend=recorder, fullgraph=True)
    for with_finalizer in (False, True):
        thing, log = Slotted(), []
        if with_finalizer:
            thing.held = Dies(log)
        compiled(tensor(2), thing, log)
        assert thing.held is None and sorted(log) == ["after", "before", *["dies"] * with_finalizer]
    assert len(recorder.graphs) == 1


def test_argument_is_dropped():
    def fn(x, held):
        name = type(held).__name__
        held = None
        return x + 1, name

    compiled, log = dl.compile(fn, backend="eager", fullgraph=True), []
    assert compiled(tensor(2), Dies(log))[1] == "Dies" and log == ["dies"]


FOUND = [Thing(), Thing()]


def test_objects_referenced_elsewhere_stay_alive():
    seen = []
    refs = [weakref.ref(each, seen.append) for each in FOUND]

    def fn(x):
        for each in FOUND:
            x = x * (1 + len(vars(each)))
        each = None
        return x, each

    result, _ = dl.compile(fn, backend="eager", fullgraph=True)(tensor(2))
    assert (result == tensor(2)).all() and not seen and all(ref() is not None for ref in refs)
