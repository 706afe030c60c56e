"""Side effects: their targets, their order, and who observes them."""

from __future__ import annotations

import collections
import types

import pytest
import torch

import dynamo_lite as dl
import elsewhere
from collector import Programs
from programs import built, check, checked, recompiling, repeated, tensor, watching

programs = Programs()

COUNTER = 0
TENSOR = torch.zeros(2)
ITEMS = []
TABLE = {"a": 1}
NAME = "unset"


class Thing:
    shared = 0

    def __init__(self, **values):
        self.__dict__.update(values)


@programs(tensor(2), operators=1)
@watching("COUNTER")
@recompiling
@repeated(3)
def global_number(x):
    global COUNTER
    COUNTER += 1
    return x * COUNTER


@programs(tensor(2), operators=2)
@watching("TENSOR")
@repeated(3)
def global_tensor(x):
    global TENSOR
    TENSOR = TENSOR + x
    return TENSOR * 2


@programs(tensor(2), operators=1, graphs=(1, 2))
@watching("NAME")
def global_deleted_and_made_again(x):
    global NAME
    del NAME
    y = x + 1
    try:
        NAME  # noqa: B018
    except NameError:
        NAME = "again"
    return y


@programs(tensor(2), operators=2)
@watching("ITEMS", "TABLE")
@recompiling
@repeated(3)
def global_containers(x):
    ITEMS.append(x + 1)
    TABLE["a"] += 1
    TABLE["b"] = x * 2
    return len(ITEMS)


OF_ANOTHER_MODULE = [(elsewhere, "STATE"), (elsewhere, "LOG"), (elsewhere, "COUNT")]


@programs(tensor(2), operators=2)
@watching(*OF_ANOTHER_MODULE)
@recompiling
@repeated(3)
def globals_of_another_module(x):
    elsewhere.STATE = x + 1
    elsewhere.LOG.append(elsewhere.COUNT)
    n = elsewhere.bump(2)
    return elsewhere.STATE * n


def test_global_seen_after_a_break():
    def read():
        return COUNTER, list(ITEMS)

    def fn(x):
        global COUNTER
        COUNTER = 5
        ITEMS.append(1)
        y = x + 1
        dl.graph_break()
        seen = read()
        COUNTER += 1
        return y * COUNTER, seen

    check(watching("COUNTER", "ITEMS")(recompiling(fn)), tensor(2), graphs=2, operators=2)


@programs(tensor(2), Thing(n=1, items=[], gone=0), operators=1)
def attributes_of_an_argument(x, thing):
    thing.a = x + 1
    thing.n += 1
    thing.items.append(thing.n)
    del thing.gone
    return thing.a


@checked(tensor(2), graphs=None, breaks=None)
@built
@recompiling
@repeated(3)
def test_class_attributes_written():
    class Base:
        count, last, names = 0, None, ("a",)

        @classmethod
        def bump(cls):
            cls.count += 1
            return cls.count

    class Derived(Base):
        def total(self):
            return self.count, super().count

    def fn(x):
        thing = Derived()
        before = Derived.count, thing.count
        Base.count += 10
        found = thing.count, Derived.bump(), thing.total(), Base.count, type(thing).bump()
        Base.last = x + 1
        thing.last.mul_(2)
        Derived.names = [*Base.names, x]
        thing.count = -1
        return before, found, Base.last, Derived.last is Base.last, thing.names, Base.names, thing.count, Derived

    return fn


@checked(tensor(2), graphs=None)
@built
@recompiling
@repeated(3)
def test_class_attributes_written_and_breaks():
    class Thing:
        count = 0
        table = {"a": 1}

    def fn(x):
        Thing.count += 1
        dl.graph_break()
        Thing.count += 1
        y = x * Thing.count
        shown = Thing.__dict__
        Thing.count += 1
        seen = shown["count"], dict(Thing.__dict__.items())["count"]
        Thing.count += 1
        return y, seen, shown["count"], Thing.count, getattr(Thing(), "count"), Thing.table

    return fn


@checked(tensor(2), graphs=None)
@built
@recompiling
def test_class_attributes_that_answer_for_themselves():
    class Field:
        def __get__(self, instance, owner=None):
            return 3

    class Meta(type):
        def __setattr__(cls, name, value):
            super().__setattr__(name, value + 1)

    class Thing(metaclass=Meta):
        count = 1

    class Other:
        field, method, plain = Field(), lambda self: 1, 5

    def fn(x):
        Thing.count = 4
        Other.field = 1
        Other.method = 2
        Other.plain = property(lambda self: 7)
        return x + Thing.count, Other.field, Other().method, Other().plain

    return fn


@programs(tensor(2), Thing(), operators=1)
def instance_attribute_hides_the_class(x, thing):
    before = thing.shared
    thing.shared = 9
    between = thing.shared
    del thing.shared
    return x + between, before, thing.shared


@programs(tensor(2), [10, 11], operators=1)
def lists(x, items):
    items.append(x + 1)
    items.extend([1, 2])
    items.insert(0, "first")
    items[1] = "changed"
    del items[-1]
    items.pop(1)
    items += [3]
    items.reverse()
    return len(items)


@programs(tensor(2), [1, 2], operators=1)
def list_cleared_and_refilled(x, items):
    items.clear()
    items.append(x * 2)
    items *= 2


@programs(tensor(2), {"a": 1, "b": 2, "e": 3}, operators=1)
def dictionaries(x, table):
    table["new"] = x + 1
    table["a"] = 5
    del table["b"]
    table.update(c=3)
    table.setdefault("d", []).append(1)
    table.pop("e", None)
    table["b"] = "again"
    return list(table)


@programs(tensor(2), collections.deque([1, 2, 3], maxlen=4), graphs=(1, 3), operators=1)
def deques(x, queue):
    queue.append(x + 1)
    queue.popleft()
    queue.extend([1, 2])
    queue[0] = "first"
    return len(queue)


@programs(tensor(2), {"list": [{"deep": []}]}, operators=1)
def nested_containers(x, table):
    table["list"][0]["deep"].append(x + 1)
    table["list"].append(table["list"][0])
    return table["list"][1] is table["list"][0]


@programs(tensor(2), {"items": []}, operators=1)
def aliased_through_local_argument_and_result(x, table):
    inner = table["items"]
    alias = inner
    alias.append(x + 1)
    table["other"] = inner
    return {"again": alias}, table["items"] is alias


@programs(tensor(2), {}, operators=1)
def objects_constructed_inside_and_stored(x, registry):
    thing = Thing(value=x + 1)
    thing.me = thing
    registry["thing"] = thing
    return thing.value


def test_order_of_effects_on_different_objects():
    class Ordered:
        def __init__(self, log):
            object.__setattr__(self, "log", log)

        def __setattr__(self, name, value):
            self.log.append((name, value))

    def fn(x, a, b):
        a.one = 1
        b.two = 2
        a.three = 3
        ITEMS.append("direct")
        return x + 1

    log = []
    check(watching("ITEMS")(recompiling(fn)), tensor(2), Ordered(log), Ordered(log), operators=1)


@programs(tensor(2), [], graphs=2, breaks=2, operators=2)
def order_is_kept_across_breaks(x, log):
    log.append("one")
    y = x + 1
    print("two", len(log))
    log.append("three")
    z = y * 2
    print("four", len(log))
    log.append(z)
    return z


@programs(tensor(2), Thing(), {}, graphs=2, breaks=1, operators=2)
@watching("COUNTER")
def print_sees_what_was_done_before(x, thing, table):
    thing.n = 5
    table["k"] = [thing.n]
    y = x + 1
    print(thing.n, table, COUNTER)
    table["k"].append(6)
    return y * 2


@programs(tensor(2, 2), [], operators=4)
def tensor_mutation_and_python_mutation_mixed(x, items):
    items.append(x[0])
    x.add_(1)
    items.append(x.clone())
    x.zero_()
    return items


@programs(tensor(2), tensor(2, seed=1), graphs=(0, 3))
def tensor_attribute_grad_and_custom(x, y):
    y.grad = x * 2
    y.note = "set"
    return y.grad + 1


@programs(tensor(2), [0], Thing(), operators=1)
def effects_that_cancel(x, items, thing):
    items.append(1)
    items.pop()
    thing.n = 1
    del thing.n
    return x + len(items)


@programs(tensor(2), [1], operators=1)
def iterating_while_appending(x, items):
    for i, v in enumerate(items):
        if i < 2:
            items.append(v + 1)
    return x + len(items)


@programs(tensor(2), {"a": 1}, graphs=None)
def dictionary_changed_while_iterating_raises(x, table):
    y = x + 1
    for k in table:
        table[k + "x"] = 1
    return y


@programs(tensor(2), collections.defaultdict(list), collections.OrderedDict(a=1, b=2), graphs=(1, 3), operators=1)
def default_and_ordered_dictionary_arguments(x, d, o):
    d["new"].append(x + 1)
    o.move_to_end("a")
    o["c"] = 3
    return list(o), len(d)


def test_setattr_override_is_called_once_and_in_order():
    class Logged:
        def __init__(self):
            object.__setattr__(self, "log", [])

        def __setattr__(self, name, value):
            self.log.append(name)
            if name != "dropped":
                object.__setattr__(self, name, value)

    def fn(x, thing):
        thing.a = x + 1
        thing.dropped = 1
        thing.a = x + 2
        return thing.a, hasattr(thing, "dropped"), thing.log

    check(fn, tensor(2), Logged(), operators=2)


class Slotted:
    __slots__ = ("passing",)


def a_function():
    """A function on which the program sets and deletes an attribute."""


@pytest.mark.parametrize(
    "target",
    [Thing(), Slotted(), a_function, torch.nn.Linear(1, 1), torch.ones(1), types.SimpleNamespace()],
    ids=["object", "slots", "function", "module", "tensor", "namespace"],
)
@pytest.mark.parametrize("there_first", [False, True])
def test_an_attribute_that_comes_and_goes(target, there_first):
    def fn(x):
        target.passing = x.shape[0]
        y = x + target.passing
        del target.passing
        return y

    compiled = dl.compile(fn, backend="eager")
    for there in (there_first, not there_first, there_first):
        if there:
            target.passing = 1
        assert torch.equal(compiled(tensor(2)), tensor(2) + 2)
        assert not hasattr(target, "passing")


test_program = programs.test()
