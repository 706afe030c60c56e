"""Writes that drop the last reference to an object with a finalizer: it runs in order among the other effects."""

from __future__ import annotations

import weakref

import pytest

import dynamo_lite as dl
from equality import Difference
from programs import tensor
from scenarios import scenario


class Dies:
    def __init__(self, log, name="dies"):
        self.log, self.name = log, name

    def __del__(self):
        self.log.append(self.name)


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


def list_cleared(x, items, log):
    log.append("before")
    items.clear()
    log.append("after")
    return x + 1


def item_written(x, items, log):
    log.append("before")
    items[0] = 1
    log.append("after")
    return x + 1


def global_written(x, log):
    global HELD
    log.append("before")
    HELD = None
    log.append("after")
    return x + 1


@scenario
def test_an_attribute_is_deleted(compiled, seen):
    held_later(attribute_deleted, compiled, seen, Thing(), with_finalizer, with_finalizer)


@scenario
def test_an_attribute_is_written(compiled, seen):
    held_later(attribute_written, compiled, seen, Thing(), with_finalizer, with_finalizer)


@scenario
def test_a_finalizer_sees_what_was_done_until_then(compiled, seen):
    class Looks:
        def __init__(self, table):
            self.table = table

        def __del__(self):
            seen.append(dict(self.table))

    def fn(x, table, items):
        table["a"] = 1
        items.clear()
        table["b"] = 2
        return x + 1

    table = {}
    items = [Looks(table)]
    seen.call(compiled(fn), tensor(2), table, items)


def held_later(fn, compiled, seen, holder, *values):
    """Calls, of which only some let go of what has a finalizer. ``values``: what puts it where it is let go of."""
    fn, log = compiled(fn), []
    for hold in values:
        hold(holder, log)
        seen.call(fn, tensor(2), holder, log)
        seen.note(log)


def with_number(holder, log):
    holder.held = 1


def with_nothing(holder, log):
    vars(holder).pop("held", None)


def with_finalizer(holder, log):
    holder.held = Dies(log)


def with_finalizer_inside(holder, log):
    holder.held = {"a": [(1, Dies(log))]}


def with_slotted_holder(holder, log):
    holder.held = Slotted()
    holder.held.held = Dies(log)


def with_watched(holder, log):
    holder.held = Thing()
    holder.watch = weakref.ref(holder.held, lambda ref: log.append("callback"))


def with_waiting_generator(holder, log):
    def waits():
        try:
            yield 1
        finally:
            log.append("closed")

    holder.held = waits()
    next(holder.held)


def with_many(holder, log):
    holder.held = [[at] for at in range(500)] + [Dies(log)]


LATER = [with_finalizer, with_watched, with_waiting_generator]
INSIDE = [with_finalizer_inside, with_slotted_holder, with_many]


def attribute_replaced(x, thing, log):
    log.append("before")
    thing.held = x
    log.append("after")
    return x + 1


def attribute_replaced_in_a_callee(x, thing, log):
    return attribute_replaced(x * 2, thing, log) + 1


def attribute_taken(x, thing, log):
    log.append("before")
    thing.__dict__["held"] = 2
    log.append("after")
    return x + 1


@pytest.mark.parametrize("hold", LATER, ids=lambda each: each.__name__)
@pytest.mark.parametrize("fn", [attribute_replaced, attribute_replaced_in_a_callee, attribute_taken])
@pytest.mark.parametrize("first", [with_number, with_nothing])
def test_an_object_with_a_finalizer_comes_later(first, fn, hold):
    def later(compiled, seen):
        held_later(fn, compiled, seen, Thing(), first, hold, first, hold)

    scenario(later)()


@pytest.mark.parametrize("hold", INSIDE)
def test_a_finalizer_of_what_an_object_alone_holds_is_delayed(hold):
    """A stated limit: what is overwritten is guarded to have no finalizer, not what it holds. That runs later, after
    the other effects."""

    def later(compiled, seen):
        held_later(attribute_replaced, compiled, seen, Thing(), with_number, hold, with_number, hold)

    with pytest.raises(Difference, match="'dies' in eager, 'after' compiled"):
        scenario(later)()


def no_slot(holder, log):
    if hasattr(holder, "held"):
        del holder.held


@scenario
def test_it_comes_into_a_slot_later(compiled, seen):
    held_later(attribute_written, compiled, seen, Slotted(), no_slot, with_finalizer, with_number, with_finalizer)


@scenario
def test_it_comes_into_a_list_later(compiled, seen):
    def plain(holder, log):
        holder[:] = [3]

    def dies(holder, log):
        holder[:] = [Dies(log)]

    held_later(item_written, compiled, seen, [], plain, dies, plain, dies)
    held_later(list_cleared, compiled, seen, [], plain, dies, plain, dies)


def key_written(x, table, log):
    log.append("before")
    table["k"] = 1
    log.append("after")
    return x + 1


@scenario
def test_it_comes_into_a_dict_later(compiled, seen):
    def plain(holder, log):
        holder["k"] = 3

    def nothing(holder, log):
        holder.clear()

    def dies(holder, log):
        holder["k"] = Dies(log)

    held_later(key_written, compiled, seen, {}, plain, dies, nothing, dies)
    held_later(list_cleared, compiled, seen, {}, plain, dies, nothing, dies)


@scenario
def test_it_comes_into_a_global_later(compiled, seen):
    global HELD
    fn, log = compiled(global_written), []
    for held in (None, Dies(log, "first"), 1, Dies(log, "second")):
        HELD = held
        held = None
        seen.call(fn, tensor(2), log)
        seen.note(log)


def global_made(x, log):
    global MADE  # noqa: PLW0603
    log.append("before")
    MADE = x
    log.append("after")
    return x + 1


@scenario
def test_it_comes_to_where_there_was_no_global(compiled, seen):
    fn, log = compiled(global_made), []
    for there in (False, True, False, True):
        if there:
            globals()["MADE"] = Dies(log)
        else:
            globals().pop("MADE", None)
        seen.call(fn, tensor(2), log)
        seen.note(log)


@scenario
def test_it_comes_into_a_cell_later(compiled, seen):
    log = []
    held = 1

    def fn(x):
        nonlocal held
        log.append("before")
        held = None
        log.append("after")
        return x + 1

    fn = compiled(fn)
    for name in ("first", "second"):
        seen.call(fn, tensor(2))
        held = Dies(log, name)
        seen.call(fn, tensor(2))
        seen.note(log)


def test_what_has_no_finalizer_is_written_by_the_same_code():
    """Nothing is compiled again for what comes into a place without being looked at."""
    compiles = []

    def backend(gm, inputs):
        compiles.append(gm)
        return gm.forward

    fn = dl.compile(attribute_replaced, backend=backend)
    thing, log = Thing(), []
    for held in (None, 1, "a", tensor(3), [tensor(2)] * 300, Thing(), {"a": Thing()}, print, len, Thing):
        thing.held = held
        log.clear()
        fn(tensor(2), thing, log)
    del thing.held
    log.clear()
    fn(tensor(2), thing, log)
    assert len(compiles) == 1


def a_function():
    """Has an attribute, at times."""


class Kept:
    held = None


@scenario
def test_it_comes_to_a_function_or_a_class_or_a_tensor_later(compiled, seen):
    turns = with_number, with_finalizer, with_number, with_finalizer
    held_later(attribute_replaced, compiled, seen, a_function, *turns)
    held_later(attribute_written, compiled, seen, Kept, *turns)
    held_later(attribute_written, compiled, seen, tensor(3), *turns)
