"""Special names of classes that hold arbitrary objects, or different objects later."""

from __future__ import annotations

import enum
import functools
import json
import math
import types

import pytest
import torch

import dynamo_lite as dl
from equality import Difference, Pairing
from outcomes import outcome, outcomes
from programs import tensor


class CountsArguments:
    """A callable that isn't a descriptor: it is called without the instance."""

    def __init__(self, more=0):
        self.more = more

    def __call__(self, *args):
        return len(args) + self.more


def run(build, compiled):
    """Runs a program after each of its changes."""
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
        return outcome(lambda: x * (thing + 1)), x + 1

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


def numbers():
    class Thing:
        pass

    thing = Thing()

    def fn(x):
        calls = int, float, complex, hex, [5, 6, 7].__getitem__, lambda value: [5, 6, 7][:value]
        return x + 1, [outcome(call, thing) for call in calls]

    changes = [
        lambda: setattr(Thing, "__index__", lambda self: 1),
        lambda: setattr(Thing, "__int__", lambda self: 8),
        lambda: setattr(Thing, "__float__", staticmethod(lambda: 2.5)),
        lambda: setattr(Thing, "__index__", functools.partial(lambda *args: 2)),  # from 3.14 on given the instance
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


class Kept:
    def __init__(self):
        self.log = []

    def __set__(self, instance, value):
        self.log.append("set")

    def __delete__(self, instance):
        self.log.append("deleted")


def writes_of_attributes():
    class Plain:
        pass

    class Thing:
        w = Plain()

    thing = Thing()
    kept = Kept()

    def fn(x):
        thing.v = thing.w = 5
        before = sorted(vars(thing))
        del thing.v, thing.w
        return x + 1, before, sorted(vars(thing)), list(kept.log)

    changes = [
        lambda: setattr(Thing, "v", kept),
        lambda: setattr(Plain, "__set__", lambda self, instance, value: kept.log.append("w")),
        lambda: setattr(Plain, "__delete__", lambda self, instance: kept.log.append("without w")),
        lambda: delattr(Thing, "v"),
        lambda: setattr(Thing, "w", 3),
    ]
    return fn, changes


def mappings():
    class Names(dict):
        pass

    names = Names(a=1)

    def fn(x):
        made = lambda: dict(names), lambda: {**names}, lambda: (lambda **k: k)(**names), lambda: names | {}
        return x + 1, outcomes(*made)

    changes = [
        lambda: setattr(Names, "keys", lambda self: ["zz"]),
        lambda: setattr(Names, "__iter__", lambda self: iter(["yy"])),
        lambda: setattr(Names, "__getitem__", lambda self, key: 99),
    ]
    return fn, changes


def numbers_of_a_class():
    class Number(int):
        pass

    class Real(float):
        pass

    number, real = Number(2), Real(2.5)

    def fn(x):
        rounded = [call(each) for each in (number, real) for call in (round, math.floor, math.ceil, math.trunc)]
        return x + 1, rounded, int(number), float(number), int(real), float(real), math.sqrt(number), round(real, 1)

    changes = [
        lambda: setattr(Number, "__float__", lambda self: 7.5),
        lambda: setattr(Real, "__int__", lambda self: 5),
        lambda: setattr(Real, "__float__", lambda self: 8.5),
        lambda: setattr(Real, "__floor__", lambda self: 9),
        lambda: setattr(Number, "__round__", lambda self, digits=None: 3),
        lambda: setattr(Real, "__trunc__", staticmethod(lambda: 4)),
    ]
    return fn, changes


def properties_without_a_part():
    class Thing:
        v = property(None, None)
        w = property(lambda self: 3)

    thing = Thing()

    def fn(x):
        calls = lambda: thing.v, lambda: setattr(thing, "w", 3), lambda: thing.u, lambda: delattr(thing, "w")
        return x + 1, outcomes(*calls)

    return fn, [lambda: setattr(Thing, "u", property()), lambda: setattr(Thing, "w", property(lambda self: 4))]


def class_methods_of_other_objects():
    class Thing:
        @classmethod
        @property
        def v(cls):
            return cls.k

        k = 2

    changes = [
        lambda: setattr(Thing, "k", 3),
        *(
            lambda value=value: setattr(Thing, "v", value)
            for value in (
                classmethod(property(lambda cls: 9)),
                classmethod(CountsArguments(4)),
                classmethod(functools.lru_cache(lambda cls: 7)),
                classmethod(functools.partial(lambda cls: 6)),
                classmethod(staticmethod(lambda *args: 6)),
                classmethod(classmethod(lambda *args: len(args))),
                staticmethod(property(lambda *args: len(args))),
            )
        ),
    ]

    def fn(x):
        of_class, of_instance = Thing.v, Thing().v
        if isinstance(of_class, property):
            return x + 1, of_class is of_instance
        called = [each() if callable(each) else each for each in (of_class, of_instance)]
        return x * called[0], called[1]

    return fn, changes


def members_that_are_missing():
    class Known(enum.Enum):
        FIRST = 1

        @classmethod
        def _missing_(cls, value):
            log.append(value)
            return cls.FIRST if value < 10 else None

    log, number = [], [5]

    def fn(x):
        try:
            return x * Known(number[0]).value, list(log)
        except (TypeError, ValueError) as error:
            return x, str(error), list(log), type(error.__context__)

    changes = [
        lambda: setattr(Known, "_missing_", classmethod(lambda cls, value: log.append(-value) or cls.FIRST)),
        lambda: number.__setitem__(0, 1),
        lambda: number.__setitem__(0, 50),
        lambda: setattr(Known, "_missing_", classmethod(lambda cls, value: None)),
        lambda: setattr(Known, "_missing_", classmethod(lambda cls, value: 4)),
        lambda: delattr(Known, "_missing_"),
    ]
    return fn, changes


def encoders():
    class Encoder(json.JSONEncoder):
        def default(self, value):
            return "told"

    change = lambda: setattr(Encoder, "default", lambda self, value: "told otherwise")  # noqa: E731
    return (lambda x: (x + 1, json.dumps({"k": object}, cls=Encoder), json.dumps([1]))), [change]


def members():
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    log, red, blue = [], Color.RED, Color.BLUE

    def fn(x):
        found = outcomes(
            *(lambda: bool(red), lambda: str(red), lambda: {red: 1} == {blue: 1}, lambda: red == 3, lambda: red != 3),
            *(lambda: red < blue, lambda: len(red), lambda: 3 in red, lambda: red(), lambda: list(red)),
            *(lambda: [1, 2, 3, 4][red], lambda: red.absent, lambda: red + 1, lambda: f"{red}", lambda: "%s" % red),
            *(lambda: repr(red), lambda: red in (blue,), lambda: red is blue, lambda: 1 if red else 2),
        )
        seen = list(log)
        log.clear()
        return x + 1, found, seen

    def writes(name, method):
        return lambda: setattr(Color, name, lambda *args: log.append(name) or method(*args))

    changes = [
        writes("__bool__", lambda self: False),
        writes("__str__", lambda self: "told"),
        writes("__hash__", lambda self: 3),
        writes("__eq__", lambda self, other: True),
        writes("__lt__", lambda self, other: True),
    ]
    more = [
        writes("__len__", lambda self: 0),
        writes("__contains__", lambda self, item: True),
        writes("__call__", lambda self: 7),
        writes("__iter__", lambda self: iter([1])),
        writes("__index__", lambda self: 2),
    ]
    return fn, [*changes, *more]


def members_that_are_numbers():
    class Number(enum.IntEnum):
        ONE = 1
        TWO = 2

    one, two = Number.ONE, Number.TWO

    def fn(x):
        found = outcomes(
            *(lambda: bool(two), lambda: two + 1, lambda: 1 + two, lambda: [5, 6, 7][two], lambda: two == 7),
            *(lambda: int(two), lambda: two * 2, lambda: two < 3, lambda: -two, lambda: max(one, two) is two),
            *(lambda: sum([one, two]), lambda: two // 1, lambda: {1: 2}.get(one), lambda: math.sqrt(two)),
        )
        return x * two.value, found

    changes = [
        lambda: setattr(Number, "__bool__", lambda self: False),
        lambda: setattr(Number, "__add__", lambda self, other: 50),
        lambda: setattr(Number, "__index__", lambda self: 0),
        lambda: setattr(Number, "__eq__", lambda self, other: True),
        lambda: setattr(Number, "__int__", lambda self: 9),
    ]
    return fn, changes


def members_given_to_functions_in_c():
    class Number(enum.IntEnum):
        ONE = 1
        TWO = 2

    class Text(enum.StrEnum):
        A = "a"

    log, one, two, text = [], Number.ONE, Number.TWO, Text.A

    def fn(x):
        found = outcomes(
            *(lambda: one in range(3), lambda: range(3).index(two), lambda: (1, 2).count(one), lambda: "abc"[one]),
            *(lambda: list(range(two)), lambda: math.gcd(two, 4), lambda: int("11", two), lambda: round(2.345, two)),
            *(lambda: bytes(one), lambda: "b,a".split(text), lambda: "abc".replace(text, "z"), lambda: text in "abc"),
            *(lambda: ",".join([text, "b"]), lambda: len(text), lambda: text[0], lambda: text == "zz"),
            *(
                lambda: {text: 1}.get("a"),
                lambda: slice(one, 3).indices(5),
                lambda: 1 in {one, 3},
                lambda: [one] == [1],
            ),
            *(lambda: (one,) < (2,), lambda: divmod(two, 2), lambda: pow(two, 2, 3), lambda: "%d" % one),
            *(lambda: hex(one), lambda: one.bit_length(), lambda: text.upper(), lambda: text + "b", lambda: text * 2),
        )
        seen = list(log)
        log.clear()
        return x.sum(one - 1), torch.zeros(two), x[one], found, seen

    def writes(cls, name, method):
        return lambda: setattr(cls, name, lambda *args: log.append(name) or method(*args))

    changes = [
        writes(Number, "__eq__", lambda self, other: False),
        writes(Number, "__hash__", lambda self: 3),
        writes(Number, "__index__", lambda self: 0),
        writes(Number, "__lt__", lambda self, other: False),
        writes(Text, "__len__", lambda self: 5),
        writes(Text, "__getitem__", lambda self, at: "q"),
        writes(Text, "__eq__", lambda self, other: True),
        writes(Text, "__hash__", lambda self: 5),
    ]
    return fn, changes


PROGRAMS = (
    *(instances, operators, attribute_access, numbers, truth_and_length, keys, mappings, numbers_of_a_class),
    *(properties_without_a_part, writes_of_attributes, class_methods_of_other_objects, members_that_are_missing),
    *(encoders, members, members_that_are_numbers, members_given_to_functions_in_c),
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


def test_special_methods_that_are_not_functions_are_traced():
    class Scale:
        __call__ = functools.lru_cache(lambda self, by: by * 2)
        __add__ = functools.partialmethod(lambda self, more, other: other + more, 3)

    scale = Scale()
    compiled = dl.compile(lambda x: x * scale(4) + (scale + 2), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tensor(3)), tensor(3) * 8 + 5)
