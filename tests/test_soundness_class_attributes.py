"""What classes have under special names may be any object, and another one later."""

from __future__ import annotations

import functools
import types

import pytest
import torch

import dynamo_lite as dl
from equality import Difference, Pairing
from programs import tensor


class CountsArguments:
    """No descriptor: it is called without the instance."""

    def __init__(self, more=0):
        self.more = more

    def __call__(self, *args):
        return len(args) + self.more


def outcome(fn, x):
    try:
        return "returned", fn(x)
    except Exception as error:  # what it raises is what is compared
        return "raised", type(error), str(error)


def run(build, compiled):
    """A program after each of the changes that come with it."""
    fn, changes = build()
    fn = compiled(fn)
    outcomes = [outcome(fn, tensor(3)), outcome(fn, tensor(3))]
    for change in changes:
        change()
        outcomes.append(outcome(fn, tensor(3)))
    return outcomes


def instances():
    class Thing:
        def __init__(self):
            self.v = 2

    def shift(by):
        def change():
            Thing.v = by

        return change

    changes = [
        lambda: setattr(Thing, "__init__", lambda self: setattr(self, "v", 3)),
        lambda: setattr(Thing, "__new__", lambda cls: types.SimpleNamespace(v=7)),
        lambda: setattr(Thing, "__new__", lambda cls: object.__new__(cls)),
        lambda: setattr(Thing, "__new__", classmethod(lambda cls, other: object.__new__(other))),
        lambda: setattr(Thing, "__init__", staticmethod(lambda: None)),
        shift(9),
        lambda: setattr(Thing, "__init__", functools.partial(lambda: None)),
        lambda: setattr(Thing, "__init__", classmethod(lambda cls: setattr(cls, "v", 11))),
        lambda: setattr(Thing, "__init__", CountsArguments()),
        lambda: setattr(Thing, "__new__", staticmethod(object.__new__)),
        lambda: setattr(Thing, "__init__", lambda self: None),
    ]
    return (lambda x: x * Thing().v), changes


def instances_of_another_class():
    class Thing:
        def __new__(cls):
            return object.__new__(Derived)

        def __init__(self):
            self.v = 2

    class Derived(Thing):
        def __init__(self):
            self.v = 5

    return (lambda x: (x * Thing().v, type(Thing()).__name__)), [lambda: delattr(Derived, "__init__")]


def errors():
    class Wrong(Exception):
        pass

    def fn(x):
        try:
            raise Wrong("a")
        except Wrong as error:
            return x + 1, error.args, str(error)

    changes = [
        lambda: setattr(Wrong, "__init__", CountsArguments()),
        lambda: setattr(Wrong, "__init__", staticmethod(lambda text: None)),
        lambda: setattr(Wrong, "__str__", staticmethod(lambda: "told")),
        lambda: setattr(Wrong, "__str__", functools.partial(str, 3)),
    ]
    return fn, changes


def operators():
    class Thing:
        pass

    def drop_and_reflect():
        del Thing.__add__
        Thing.__radd__ = lambda self, other: 77

    thing = Thing()
    cached = functools.lru_cache(lambda self, other: 13)
    changes = [
        lambda value=value: setattr(Thing, "__add__", value)
        for value in (
            CountsArguments(5),
            staticmethod(lambda other: 9),
            classmethod(lambda cls, other: 4),
            property(lambda self: lambda other: 21),
            functools.partial(lambda other: 3),
            None,
            functools.partialmethod(lambda self, one, other: one, 8),
            cached,
        )
    ]

    def fn(x):
        try:
            return x * (thing + 1)
        except TypeError as error:
            return x + 1, str(error)

    return fn, [*changes, drop_and_reflect]


def attribute_access():
    class Thing:
        pass

    thing = Thing()

    def fn(x):
        thing.stored = 3
        found = thing.__dict__.pop("stored", None)
        return x + 1, found, getattr(thing, "absent", "nothing"), getattr(thing, "v", 4)

    names = ("__getattr__", "__setattr__", "__getattribute__")
    changes = [
        lambda: setattr(Thing, names[0], staticmethod(lambda name: name + "!")),
        lambda: setattr(Thing, names[0], functools.lru_cache(lambda self, name: name + "?")),
        lambda: setattr(Thing, names[0], CountsArguments()),
        lambda: setattr(Thing, names[1], staticmethod(lambda name, value: None)),
        lambda: setattr(Thing, names[1], CountsArguments()),
        lambda: setattr(Thing, "v", property(lambda self: object().absent)),
        lambda: delattr(Thing, names[0]),
        lambda: setattr(Thing, names[2], functools.lru_cache(lambda self, name: {} if name == "__dict__" else 5)),
    ]
    return fn, changes


def properties_that_raise():
    class Thing:
        @property
        def v(self):
            raise AttributeError("none yet")

    thing = Thing()
    changes = [
        lambda: setattr(Thing, "__getattr__", lambda self, name: 4),
        lambda: delattr(Thing, "__getattr__"),
    ]
    return (lambda x: x * getattr(thing, "v", 1)), changes


def numbers():
    class Thing:
        pass

    thing = Thing()

    def fn(x):
        found = []
        for call in (int, float, complex, hex, [5, 6, 7].__getitem__, lambda value: [5, 6, 7][:value]):
            try:
                found.append(call(thing))
            except (TypeError, ValueError) as error:
                found.append(type(error).__name__)
        return x + 1, found

    changes = [
        lambda: setattr(Thing, "__index__", lambda self: 1),
        lambda: setattr(Thing, "__int__", lambda self: 8),
        lambda: setattr(Thing, "__float__", staticmethod(lambda: 2.5)),
        lambda: setattr(Thing, "__index__", functools.partial(int, 2)),
        lambda: setattr(Thing, "__complex__", lambda self: 1j),
        lambda: delattr(Thing, "__int__"),
    ]
    return fn, changes


def truth_and_length():
    class Thing:
        pass

    thing = Thing()
    changes = [
        lambda: setattr(Thing, "__len__", lambda self: 0),
        lambda: setattr(Thing, "__bool__", staticmethod(lambda: True)),
        lambda: setattr(Thing, "__bool__", lambda self: 3),
        lambda: delattr(Thing, "__bool__"),
        lambda: setattr(Thing, "__len__", lambda self: -1),
        lambda: setattr(Thing, "__len__", lambda self: 2**70),
        lambda: setattr(Thing, "__len__", CountsArguments(4)),
    ]
    return (lambda x: x + 1 if thing else x - 1), changes


def questions_to_a_metaclass():
    class Meta(type):
        pass

    class Asked(metaclass=Meta):
        pass

    changes = [
        lambda: setattr(Meta, "__instancecheck__", CountsArguments()),
        lambda: setattr(Meta, "__instancecheck__", staticmethod(lambda value: value == 3)),
        lambda: setattr(Meta, "__subclasscheck__", functools.partial(lambda kind: kind is int)),
        lambda: delattr(Meta, "__instancecheck__"),
    ]
    return (lambda x: (x + 1, isinstance(3, Asked), issubclass(int, Asked))), changes


def keys():
    class Thing:
        pass

    thing, other = Thing(), Thing()

    def fn(x):
        try:
            return x + 1, thing == other, thing in {other: 1}, len({thing, other})
        except TypeError as error:
            return x, str(error)

    changes = [
        lambda: setattr(Thing, "__eq__", CountsArguments()),
        lambda: setattr(Thing, "__hash__", staticmethod(lambda: 3)),
        lambda: setattr(Thing, "__hash__", functools.lru_cache(lambda self: 4)),
        lambda: setattr(Thing, "__eq__", functools.partial(lambda other: False)),
        lambda: setattr(Thing, "__hash__", None),
    ]
    return fn, changes


PROGRAMS = (
    *(instances, instances_of_another_class, errors, operators, attribute_access, properties_that_raise, numbers),
    *(truth_and_length, questions_to_a_metaclass, keys),
)


@pytest.mark.parametrize("build", PROGRAMS)
def test_other_attributes_later(build):
    eager = run(build, lambda fn: fn)
    compiled = run(build, lambda fn: dl.compile(fn, backend="eager"))
    for step, (one, other) in enumerate(zip(eager, compiled, strict=True)):
        try:
            Pairing().compare(one, other, f"after change {step - 1}")
        except Difference as difference:
            difference.add_note(f"compiled: {other}")
            raise


def test_special_methods_that_are_no_functions_are_traced():
    class Scale:
        __call__ = functools.lru_cache(lambda self, by: by * 2)
        __add__ = functools.partialmethod(lambda self, more, other: other + more, 3)

    scale = Scale()
    compiled = dl.compile(lambda x: x * scale(4) + (scale + 2), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tensor(3)), tensor(3) * 8 + 5)
