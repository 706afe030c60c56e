"""What is written may let go of the last reference to an object with a finalizer: it runs among the other effects."""

from __future__ import annotations

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


def held_twice(fn, compiled, seen, holder, hold):
    """Two calls, each of which lets go of another object."""
    fn, log = compiled(fn), []
    for name in ("first", "second"):
        hold(holder, Dies(log, name))
        seen.call(fn, tensor(2), holder, log)
        seen.note(log)


def as_attribute(holder, value):
    holder.held = value


def as_item(holder, value):
    holder[:] = [value]


@scenario
def test_an_attribute_is_deleted(compiled, seen):
    held_twice(attribute_deleted, compiled, seen, Thing(), as_attribute)


@scenario
def test_an_attribute_is_written(compiled, seen):
    held_twice(attribute_written, compiled, seen, Thing(), as_attribute)


@scenario
def test_a_slot_is_written(compiled, seen):
    held_twice(attribute_written, compiled, seen, Slotted(), as_attribute)


@scenario
def test_a_list_is_cleared(compiled, seen):
    held_twice(list_cleared, compiled, seen, [], as_item)


@scenario
def test_an_item_is_written(compiled, seen):
    held_twice(item_written, compiled, seen, [], as_item)


@scenario
def test_a_dict_is_cleared(compiled, seen):
    held_twice(list_cleared, compiled, seen, {}, lambda holder, value: holder.update(k=value))


@scenario
def test_a_set_is_cleared(compiled, seen):
    held_twice(list_cleared, compiled, seen, set(), lambda holder, value: holder.add(value))


@scenario
def test_a_global_is_written(compiled, seen):
    global HELD
    fn, log = compiled(global_written), []
    for name in ("first", "second"):
        HELD = Dies(log, name)
        seen.call(fn, tensor(2), log)
        seen.note(log)


@scenario
def test_a_cell_is_written(compiled, seen):
    log = []
    held = Dies(log)

    def fn(x):
        nonlocal held
        log.append("before")
        held = None
        log.append("after")
        return x + 1

    seen.call(compiled(fn), tensor(2))
    seen.note(log)


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


@scenario
def test_a_generator_is_closed_where_it_is_let_go(compiled, seen):
    log = []

    def waits():
        try:
            yield 1
        finally:
            log.append("closed")

    thing = Thing()
    thing.held = waits()
    next(thing.held)
    seen.call(compiled(attribute_written), tensor(2), thing, log)
    seen.note(log)
