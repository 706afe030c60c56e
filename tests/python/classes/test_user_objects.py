"""Objects of user classes: attributes, descriptors, construction, inheritance, dataclasses."""

from __future__ import annotations

import abc
import dataclasses
import enum
import types
from typing import Any, Generic, NamedTuple, TypeVar

import pytest
import torch

import dynamo_lite
from programs import check, tensor


@dataclasses.dataclass
class Config:
    width: int = 3
    scale: float = 2.0
    names: list[str] = dataclasses.field(default_factory=list)

    def area(self):
        return self.width * self.width


@dataclasses.dataclass(frozen=True)
class Frozen:
    value: Any
    other: int = 1


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: int = 5


class Colour(enum.Enum):
    RED = 1
    BLUE = 2

    @property
    def double(self):
        return self.value * 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Pair(NamedTuple):
    first: Any
    second: int = 2

    def total(self):
        return self.first + self.second


def test_attributes_are_read_and_written():
    class Thing:
        shared = 4

    def fn(thing, x):
        thing.a = x + thing.n
        thing.n += thing.shared
        del thing.gone
        return thing.a * 2

    thing = Thing()
    thing.n, thing.gone = 1, 0
    check(fn, thing, tensor(2), operators=2)


def test_hasattr_getattr_setattr_delattr():
    class Thing:
        pass

    def fn(thing, x):
        seen = [hasattr(thing, "a"), hasattr(thing, "n"), getattr(thing, "n", 0), getattr(thing, "zz", "default")]
        setattr(thing, "a", x + 1)  # noqa: B010
        seen.append(hasattr(thing, "a"))
        delattr(thing, "n")
        seen.append(hasattr(thing, "n"))
        return thing.a, seen

    thing = Thing()
    thing.n = 3
    check(fn, thing, tensor(2), operators=1)


def test_object_constructed_inside():
    class Vector:
        dims = 2

        def __init__(self, x, *, scale=1):
            self.x = x * scale

        def shifted(self, n):
            return Vector(self.x + n)

    def fn(x):
        v = Vector(x, scale=3).shifted(1)
        return v.x, v.dims, isinstance(v, Vector), type(v) is Vector

    check(fn, tensor(2), operators=3)


def test_object_constructed_inside_is_returned():
    class Node:
        def __init__(self, value, next=None):
            self.value = value
            self.next = next

    def fn(x):
        a = Node(x + 1)
        b = Node(x * 2, next=a)
        a.next = b
        return b

    check(fn, tensor(2), operators=2)


def test_object_constructed_with_new():
    class Thing:
        def __new__(cls, n):
            made = super().__new__(cls)
            made.from_new = n
            return made

        def __init__(self, n):
            self.n = n

    class Other:
        def __new__(cls):
            return 5

    def fn(x):
        t = Thing(3)
        return x * t.n + t.from_new, Other(), t

    check(fn, tensor(2), operators=2)


def test_properties():
    class Thing:
        def __init__(self, x):
            self._x = x

        @property
        def x(self):
            return self._x + 1

        @x.setter
        def x(self, value):
            self._x = value * 2

        @x.deleter
        def x(self):
            self._x = None

    def fn(v):
        t = Thing(v)
        a = t.x
        t.x = a
        b = t.x
        del t.x
        return a, b, t._x

    check(fn, tensor(2), operators=3)


def test_data_and_non_data_descriptors():
    class Data:
        def __set_name__(self, owner, name):
            self.key = "_" + name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            return instance.__dict__[self.key] * 2

        def __set__(self, instance, value):
            instance.__dict__[self.key] = value + 1

    class NonData:
        def __get__(self, instance, owner=None):
            return "class" if instance is None else 10

    class Thing:
        d = Data()
        n = NonData()

    def fn(x):
        t = Thing()
        t.d = x
        before = t.n
        t.n = 20
        return t.d, before, t.n, Thing.n

    check(fn, tensor(2), operators=2)


def test_cached_property():
    import functools

    class Thing:
        def __init__(self, n):
            self.n = n

        @functools.cached_property
        def squared(self):
            return self.n * self.n

    def fn(t, x):
        return x + t.squared + t.squared

    check(fn, Thing(3), tensor(2), graphs=(1, 3))


def test_getattr_fallback_and_getattribute():
    class Lazy:
        real = 1

        def __getattr__(self, name):
            if name.startswith("n"):
                return len(name)
            raise AttributeError(name)

    class Watched:
        def __getattribute__(self, name):
            if name == "magic":
                return 42
            return object.__getattribute__(self, name)

        plain = 2

    def fn(x, lazy, watched):
        missing = getattr(lazy, "other", "none"), hasattr(lazy, "zz")
        return x + lazy.real + lazy.nine + watched.magic + watched.plain, missing

    check(fn, tensor(2), Lazy(), Watched(), graphs=(1, 4))


def test_setattr_override():
    class Logged:
        def __init__(self):
            object.__setattr__(self, "log", [])
            self.a = 1

        def __setattr__(self, name, value):
            self.log.append(name)
            object.__setattr__(self, name, value)

        def __delattr__(self, name):
            self.log.append("del " + name)
            super().__delattr__(name)

    def fn(x, given):
        made = Logged()
        made.b = x + 1
        given.c = x * 2
        del given.a
        return made, given.c

    check(fn, tensor(2), Logged(), operators=2)


def test_super_and_multiple_inheritance():
    class Base:
        def go(self, x):
            return x + 1

    class Left(Base):
        def go(self, x):
            return super().go(x) * 2

    class Right(Base):
        def go(self, x):
            return super().go(x) - 3

    class Both(Left, Right):
        def go(self, x):
            return super().go(x) / 4

        @classmethod
        def make(cls):
            return cls()

        @property
        def name(self):
            return super().__class__.__name__

    def fn(x):
        both = Both.make()
        return both.go(x), super(Left, both).go(x), both.name, [c.__name__ for c in Both.__mro__]

    check(fn, tensor(2), operators=6)


def test_isinstance_issubclass_and_type():
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self): ...

    class B(A):
        def f(self):
            return 1

    def fn(x, b):
        seen = (
            isinstance(b, A),
            issubclass(B, A),
            isinstance(x, torch.Tensor),
            isinstance(3, (str, int)),
            type(b).__name__,
            type(b) is B,
            isinstance(b, int | A),
            callable(fn),
            b.__class__ is B,
            isinstance(x, torch.nn.Parameter),
        )
        return x + b.f(), seen

    check(fn, tensor(2), B(), operators=1)


def test_instancecheck_of_a_metaclass():
    class Meta(type):
        def __instancecheck__(cls, value):
            return value == 3

        def __call__(cls, *args):
            made = super().__call__(*args)
            made.tagged = True
            return made

    class Three(metaclass=Meta):
        pass

    def fn(x):
        return x + 1, isinstance(3, Three), isinstance(4, Three), Three().tagged

    check(fn, tensor(2), graphs=(1, 4))


def test_dataclass_argument():
    def fn(config, x):
        config.names.append("seen")
        return x * config.scale + config.area()

    check(fn, Config(names=["a"]), tensor(2), operators=2, others=[(Config(width=5), tensor(2))], all_graphs=2)


def test_dataclass_constructed_inside():
    def fn(x):
        config = Config(width=x.shape[0], names=["n"])
        config.scale = x + 1
        return config, config.area(), Config()

    check(fn, tensor(2), operators=1)


def test_frozen_and_slotted_dataclasses():
    def fn(x):
        f = Frozen(x + 1)
        s = Slotted(x * 2)
        s.b += f.other
        try:
            f.other = 7
        except dataclasses.FrozenInstanceError:
            s.b += 100
        return f, s, f.value

    check(fn, tensor(2), graphs=(1, 3))


def test_dataclass_helpers():
    def fn(x):
        c = Config(width=4)
        d = dataclasses.replace(c, scale=1.0)
        names = [f.name for f in dataclasses.fields(c)]
        return x * d.width, names, d, c == Config(width=4), dataclasses.is_dataclass(c)

    check(fn, tensor(2), graphs=(1, 3))


def test_slots():
    class Slots:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    def fn(x, given):
        made = Slots(x + 1)
        made.b = given.a * 2
        given.b = x
        return made, hasattr(Slots(1), "b")

    check(fn, tensor(2), Slots(3), operators=1)


def test_enums():
    def fn(x, colour):
        if colour is Colour.RED:
            x = x + colour.value
        n = Level.HIGH + 1
        same = colour == Colour.RED, colour in (Colour.BLUE,), Colour["BLUE"], Colour(2), [c.name for c in Colour]
        return x * n, same, colour.double, Level.LOW < Level.HIGH

    check(fn, tensor(2), Colour.RED, others=[(tensor(2), Colour.BLUE)], operators=2, all_graphs=2)


def test_typing_namedtuple_and_generic():
    T = TypeVar("T")

    class Box(Generic[T]):
        def __init__(self, item: T):
            self.item = item

    def fn(x):
        p = Pair(x + 1)
        b = Box[int](3)
        return p.total() * b.item, p, Pair(1)._replace(second=9)

    check(fn, tensor(2), graphs=(1, 3), operators=3)


def test_container_subclasses():
    class Items(list):
        def last(self):
            return self[-1]

    class Table(dict):
        def __missing__(self, key):
            return len(key)

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return self[name]

    class Size(tuple):
        @property
        def area(self):
            return self[0] * self[1]

    def fn(x, items, table, size):
        items.append(x + 1)
        table["new"] = x * 2
        return items.last() + table["new"] * table["abc"], table.key, size.area, len(items), size[0]

    check(fn, tensor(2), Items([1]), Table(key=7), Size((2, 3)), operators=4)


def test_container_subclass_constructed_inside():
    class Items(list):
        extra = 1

    class Table(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

    def fn(x):
        items = Items([1, 2])
        items.append(x + 1)
        items.extra = 3
        table = Table()
        table["a"] = x * 2
        return items, table, items.extra

    check(fn, tensor(2), graphs=(1, 3))


def test_protocol_methods():
    class Bag:
        def __init__(self, items):
            self.items = items

        def __len__(self):
            return len(self.items)

        def __getitem__(self, key):
            return self.items[key]

        def __setitem__(self, key, value):
            self.items[key] = value

        def __delitem__(self, key):
            del self.items[key]

        def __contains__(self, item):
            return any(item is each for each in self.items)

        def __iter__(self):
            return iter(self.items)

        def __bool__(self):
            return True

        def __eq__(self, other):
            return isinstance(other, Bag)

        def __hash__(self):
            return 7

        def __repr__(self):
            return f"Bag({len(self)})"

        def __index__(self):
            return 1

        def __int__(self):
            return 11

        def __float__(self):
            return 1.5

        def __enter__(self):
            return self.items

        def __exit__(self, *error):
            return False

    def fn(x):
        b = Bag([x, 1, 2])
        b[1] = x + 1
        del b[2]
        with b as items:
            items.append(3)
        seen = len(b), x in b, [*b][2], bool(b), b == Bag([]), repr(b), f"{b}", [10, 20][b], int(b), float(b), hash(b)
        return b[1] * 2, seen, {b: 1}[Bag([])]

    check(fn, tensor(2), graphs=(1, 4))


def test_class_built_inside():
    def fn(x):
        class Local:
            factor = 3

            def __init__(self, v):
                self.v = v

            def get(self):
                return self.v * self.factor

        return Local(x).get()

    check(fn, tensor(2), graphs=(1, 3), recompiles=True)


def test_class_attributes_and_their_change():
    class Counter:
        total = 0

        @classmethod
        def bump(cls):
            cls.total += 1
            return cls.total

    def build():
        Counter.total = 0

        def fn(x):
            return x + Counter.bump(), Counter.total

        return fn

    check(build, tensor(2), build=True, recompiles=True, graphs=(1, 3))


def test_simple_namespace_and_module_attributes():
    space = types.SimpleNamespace(a=2, b=None)

    def fn(x, s):
        s.b = x + s.a
        return s.b * torch.pi, vars(s)["a"], torch.nn.functional.__name__

    check(fn, tensor(2), space, graphs=(0, 2))


def test_dict_of_an_object():
    class Thing:
        pass

    def fn(x, thing):
        thing.__dict__["late"] = x + 1
        return thing.late * 2, sorted(thing.__dict__), vars(thing)["n"]

    thing = Thing()
    thing.n = 1
    check(fn, tensor(2), thing, graphs=(1, 3))


def test_object_shared_between_arguments():
    class Thing:
        pass

    def fn(a, b, x):
        a.v = x + 1
        return b.v * 2 if a is b else x

    one = Thing()
    other = Thing()
    check(fn, one, one, tensor(2), operators=2, others=[(one, other, tensor(2))])


def test_model_output():
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput

    def fn(x):
        out = BaseModelOutput(last_hidden_state=x + 1, hidden_states=(x, x * 2))
        first = out[0]
        keys = list(out.keys())
        out.attentions = None
        return out, first * out["last_hidden_state"], keys, out.to_tuple()[1], out.attentions, "hidden_states" in out

    check(fn, tensor(2), operators=3)


def test_model_output_argument():
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import BaseModelOutput

    def fn(out):
        return out.last_hidden_state + out[1][0], len(out), out.attentions is None

    check(fn, BaseModelOutput(last_hidden_state=tensor(2), hidden_states=(tensor(2, seed=1),)), operators=1)


def test_repr_str_and_sorting_of_objects():
    class Version:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            return self.n < other.n

        def __str__(self):
            return f"v{self.n}"

    def fn(x):
        items = sorted([Version(3), Version(1)])
        return x * items[0].n, str(items[1]), f"{items[0]}", max(items).n

    check(fn, tensor(2), graphs=(1, 3))


def test_weird_equality_is_not_called_for_identity():
    class Never:
        def __eq__(self, other):
            raise RuntimeError("compared")

        __hash__ = object.__hash__

    def fn(x, n):
        same = n is n  # noqa: PLR0124
        return x + 1, same, n in [n]

    check(fn, tensor(2), Never(), operators=1)


def test_dictionary_whose_items_are_made_when_read():
    from collections import OrderedDict

    class Makes(OrderedDict):
        def __getitem__(self, key):
            cls, scale = super().__getitem__(key)
            return cls(scale)

        def __iter__(self):
            return iter(sorted(super().__iter__()))

    class Scale:
        def __init__(self, scale):
            self.scale = scale

    def build():
        table = Makes(b=(Scale, 3), a=(Scale, 2))
        return lambda x: x * table["a"].scale + table["b"].scale

    check(build, tensor(3), build=True, operators=2)


def test_break_at_a_method_in_c_that_is_overridden():
    class Notes(list):
        def append(self, item):
            super().append(identity(item))

    def identity(item):
        dynamo_lite.graph_break()
        return item

    class Swaps:
        def __setattr__(self, name, value):
            super().__setattr__(name, value)

    class Other(Swaps):
        n = 5

    Swaps.n = 1

    def fn(x):
        notes, thing = Notes(), Swaps()
        notes.append(x + 1)
        thing.__class__ = Other
        return notes[0] * thing.n, len(notes)

    check(fn, tensor(3), graphs=None)


def test_property_without_a_value_falls_back_on_getattr():
    class Falls:
        @property
        def width(self):
            return self.missing

        def __getattr__(self, name):
            if name == "missing":
                raise AttributeError(name)
            return len(name)

    def fn(x):
        return x * Falls().width

    check(fn, tensor(3), operators=1)


def test_property_of_a_derived_kind():
    class Documented(property):
        note = "derived"

    class Holds:
        def __init__(self):
            self._n = 3

        @Documented
        def n(self):
            return self._n

        @n.setter
        def n(self, value):
            self._n = value + 1

    def fn(x):
        held = Holds()
        held.n = 5
        return x * held.n, Holds.n.note

    check(fn, tensor(3), graphs=(0, 1), breaks=None)
