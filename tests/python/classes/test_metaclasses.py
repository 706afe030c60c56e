"""Metaclasses, abstract classes, classes that are containers."""

from __future__ import annotations

import abc
import collections
import copy
import typing

import pytest
import torch

import dynamo_lite as dl
from collector import Programs
from programs import check, recompiling, tensor, watching

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


class Singleton(type):
    instances: typing.ClassVar[dict] = {}

    def __call__(cls, *args):
        if cls not in cls.instances:
            cls.instances[cls] = super().__call__(*args)
        return cls.instances[cls]


class Registry(metaclass=Singleton):
    def __init__(self, name="registry"):
        self.name = name


@program()
@recompiling
@watching((Singleton, "instances"))
def metaclass_call_makes_one_instance(x, n):
    Singleton.instances.clear()
    one = Registry("first")
    CUT
    two = Registry("second")
    return x + 1, one is two, two.name


class Meta(type):
    """A metaclass whose classes are containers and compute attributes."""

    def __getattr__(cls, name):
        if name.startswith("made_"):
            return name.upper()
        raise AttributeError(name)

    def __iter__(cls):
        return iter(cls.items)

    def __len__(cls):
        return len(cls.items)

    def __contains__(cls, item):
        return item in cls.items

    def __getitem__(cls, at):
        return cls.items[at]

    def __bool__(cls):
        return cls.truth

    def __eq__(cls, other):
        return isinstance(other, Meta) and cls.items == other.items

    def __hash__(cls):
        return 5

    def __add__(cls, other):
        return cls.items + [other]

    def __str__(cls):
        return "a class of Meta"

    @property
    def count(cls):
        return len(cls.items)

    def method(cls, by):
        return len(cls.items) * by


class WithMeta(metaclass=Meta):
    items: typing.ClassVar[list] = [1, 2, 3]
    truth = False


@program()
def metaclass_getattr_and_property(x, n):
    CUT
    return x * WithMeta.count, WithMeta.made_up, hasattr(WithMeta, "other"), WithMeta.method(2)


@program()
def metaclass_container_protocol(x, n):
    CUT
    return x * len(WithMeta), list(WithMeta), 2 in WithMeta, WithMeta[1], bool(WithMeta), [i for i in WithMeta]


@program()
def metaclass_operators_and_text(x, n):
    return x + 1, WithMeta + 4, str(WithMeta), WithMeta == WithMeta, WithMeta != Meta, hash(WithMeta)


class Checks(type):
    def __instancecheck__(cls, instance):
        return hasattr(instance, "quacks")

    def __subclasscheck__(cls, other):
        return "Duck" in other.__name__


class Duck(metaclass=Checks):
    pass


class Quacker:
    quacks = True


@program()
def instance_and_subclass_checks_of_a_metaclass(x, n):
    class_ = Quacker
    CUT
    return x + 1, isinstance(Quacker(), Duck), isinstance(x, Duck), issubclass(class_, Duck), issubclass(Duck, Duck)


CALLED: list[str] = []


class Observing(type):
    """A metaclass that records which of its methods are called."""

    def __getattr__(cls, name):
        CALLED.append(name)
        raise AttributeError(name)

    def __subclasscheck__(cls, other):
        CALLED.append("subclasscheck")
        return super().__subclasscheck__(other)


class Observed(dict, metaclass=Observing):
    pass


def called(run, x):
    CALLED.clear()
    return run(x), [*CALLED]


@program()
def creation_calls_no_getattr_of_the_metaclass(x, n):
    return x + 1, called(lambda x: Observed(a=1), x)


@program()
def operators_call_no_subclasscheck_of_the_metaclass(x, n):
    made = Observed(a=1)
    return x + 1, called(lambda x: [made | {"b": 2}, {} | made, made == {}, {} == made], x)


def test_copy_looks_arguments_of_new_up_on_the_class():
    def fn(x, value):
        return x + 1, type(copy.copy(value)).__name__

    x, made = torch.ones(2), Observed(a=1)
    copy.copy(made)  # copyreg keeps the names of the class's slots, which it reads through the metaclass
    _, wanted = called(lambda x: fn(x, made), x)
    compiled = dl.compile(fn, backend="eager")
    compiled(x, made)
    (_, name), found = called(lambda x: compiled(x, made), x)
    assert (name, found) == ("Observed", wanted)


@pytest.mark.changes_what_is_guarded  # sympy is imported on the way and adds to copyreg.dispatch_table
def test_deepcopy_reads_slot_names_through_the_metaclass():
    def fn(x, value):
        copied = copy.deepcopy(value)
        return x + 1, type(copied).__name__, dict(copied)

    class Eager(dict, metaclass=Observing):
        pass

    class Compiled(dict, metaclass=Observing):
        pass

    x = torch.ones(2)
    _, wanted = called(lambda x: fn(x, Eager(a=1)), x)
    (_, name, items), found = called(lambda x: dl.compile(fn, backend="eager")(x, Compiled(a=1)), x)
    assert (name, items, found) == ("Compiled", {"a": 1}, wanted)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @property
    @abc.abstractmethod
    def name(self): ...

    def describe(self):
        return f"{self.name}"


class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * self.side

    @property
    def name(self):
        return "square"


@program()
def abstract_classes(x, n):
    square = Square(x)
    try:
        Shape()
    except TypeError as error:
        text = str(error)
    CUT
    return square.area(), square.describe(), isinstance(square, Shape), text


class Bag(collections.abc.MutableMapping):
    """Inherits all methods of a mapping from five that it defines."""

    def __init__(self, **items):
        self.items_ = dict(items)

    def __getitem__(self, key):
        return self.items_[key]

    def __setitem__(self, key, value):
        self.items_[key] = value

    def __delitem__(self, key):
        del self.items_[key]

    def __iter__(self):
        return iter(self.items_)

    def __len__(self):
        return len(self.items_)


@program()
def mapping_mixin_methods(x, n):
    bag = Bag(a=x, b=x + 1)
    bag.update(c=x * 2)
    y = bag.pop("a")
    bag.setdefault("d", n)
    CUT
    return y, list(bag), bag.get("none"), "b" in bag, list(bag.items()), bag == {"b": 1}


class Row(collections.abc.Sequence):
    def __init__(self, *items):
        self.stored = items

    def __getitem__(self, at):
        return self.stored[at]

    def __len__(self):
        return len(self.stored)


@program()
def sequence_mixin_methods(x, n):
    row = Row(1, 2, n)
    CUT
    return x * row[0], list(reversed(row)), 2 in row, row.index(2), row.count(1), list(row), [*row]


@program()
def mapping_unpacked_into_a_call(x, n):
    def call(**kwargs):
        return kwargs

    return x + 1, call(**Bag(a=1, b=2)), {**Bag(a=n)}


test_program = program.test()


class Record(typing.TypedDict):
    x: torch.Tensor
    n: int


class Described(type):
    __call__ = staticmethod(lambda *args: ("described", *args))


class Counted(type):
    @classmethod
    def __call__(mcs, *args):
        return mcs.__name__, *args


def test_calls_of_classes_that_their_metaclass_answers():
    class One(metaclass=Described):
        pass

    class Two(metaclass=Counted):
        pass

    def fn(x):
        made = Record(x=x + 1, n=2)
        made["n"] += 1
        return made, type(made) is dict, One(x * 2), Two(x * 3, 1)

    check(fn, tensor(3), operators=3)
