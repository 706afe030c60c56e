"""``class`` statements in a compiled function: the graph breaks there, CPython creates the class, and the rest is
captured. Closures, bases, metaclasses and decorators are as in eager."""

from __future__ import annotations

import abc
import collections
import collections.abc
import dataclasses
import enum
import functools
import types
import typing

import pytest
import torch

import dynamo_lite as dl
from cuts import Place, Programs, run_program

program = Programs(recompiles=True)  # after the break a class is guarded by identity, and each call creates another
CUT = None


class Base:
    seen: typing.ClassVar[list] = []

    def __init__(self, x):
        self.x = x

    def scaled(self, by):
        return self.x * by


class Hooked:
    def __init_subclass__(cls, by=1, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.by = by
        cls.names = [*getattr(cls, "names", []), cls.__name__]


class Meta(type):
    def __new__(mcs, name, bases, namespace, **kwargs):
        namespace["made_by"] = mcs.__name__
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **kwargs):
        super().__init__(name, bases, namespace)
        cls.options = sorted(kwargs)

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.called = True
        return made


class Named:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner):
        return self if instance is None else instance.__dict__.get("_" + self.name, "unset")

    def __set__(self, instance, value):
        instance.__dict__["_" + self.name] = value


@program(graphs=1, breaks=1)
def instance_returned(x, n):
    class Point:
        dims = 2

        def __init__(self, a, b):
            self.a = a
            self.b = b

    return Point(x + 1, n)


@program(graphs=1, breaks=1)
def class_returned(x, n):
    class Thing:
        value = 5
        text: str = "text"

    return x + Thing.value, Thing, Thing.__name__, Thing.__qualname__, Thing.__module__


@program(graphs=1, breaks=2)
def two_classes_of_one_statement_are_different(x, n):
    def make(k):
        class Thing:
            number = k

        return Thing

    one, two = make(1), make(2)
    CUT
    return x + one.number, one is two, isinstance(one(), two), isinstance(one(), one), two.number


@program(graphs=1, breaks=1)
def methods_close_over_the_function(x, n):
    total = x

    class Adder:
        def add(self, y):
            nonlocal total
            total = total + y
            return total

    adder = Adder()
    adder.add(1)
    CUT
    adder.add(x)
    return total


@program(graphs=1, breaks=1)
def super_after_a_break(x, n):
    class Derived(Base):
        def scaled(self, by):
            return super().scaled(by) + 1

    d = Derived(x)
    CUT
    return d.scaled(n), isinstance(d, Base)


@program(graphs=1, breaks=1)
def body_with_computation(x, n):
    class Table:
        size = n * 2
        squares = [i * i for i in range(3)]
        if size > 4:
            big = True
        else:
            big = False
        for item in range(2):
            last = item
        del item

    CUT
    return x * Table.size, Table.squares, Table.big, Table.last, hasattr(Table, "item")


@program(graphs=1, breaks=3)
def body_sees_locals_and_its_own_names(x, n):
    outer = 3

    class Thing:
        a = outer
        b = a + 1
        inner = [outer for _ in range(2)]
        a = 10

    try:

        class Broken:
            a = outer
            b = late
            late = 1
    except NameError as error:
        return x * Thing.b, Thing.a, Thing.inner, str(error)


@program(graphs=1, breaks=1)
def tensors_as_class_attributes(x, n):
    class Constants:
        scale = x * 2
        both = [x, scale]

        def apply(self, y):
            return y * self.scale + self.both[0]

    y = Constants().apply(x)
    CUT
    return y, Constants.scale


@program(graphs=1, breaks=1)
def properties_class_and_static_methods(x, n):
    class Thing:
        count = 0

        def __init__(self, value):
            self._value = value

        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, new):
            self._value = new * 2

        @classmethod
        def make(cls, value):
            return cls(value)

        @staticmethod
        def twice(y):
            return y * 2

    thing = Thing.make(x)
    thing.value = x + 1
    CUT
    return thing.value, Thing.twice(x), type(thing).__name__


@program(graphs=1, breaks=2)
def init_subclass_of_a_base_is_called(x, n):
    class Child(Hooked, by=n):
        pass

    class Grandchild(Child):
        pass

    CUT
    return x * Child.by, Child.names, Grandchild.names, Grandchild.by


@program(graphs=1, breaks=1)
def set_name_is_called(x, n):
    class Thing:
        value = Named()
        other = Named()

    thing = Thing()
    thing.value = x * 2
    CUT
    return thing.value, thing.other, Thing.value.name


@program(graphs=1, breaks=1)
def metaclass_new_init_and_call(x, n):
    class Thing(metaclass=Meta):
        def __init__(self, value):
            self.value = value

    thing = Thing(x + 1)
    CUT
    return thing.value, thing.called, Thing.made_by, type(Thing).__name__, Thing.options


@program(graphs=1, breaks=2)
def abstract_base_class(x, n):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        def __init__(self, side):
            self.side = side

        def area(self):
            return self.side * self.side

    try:
        Shape()
    except TypeError as error:
        text = str(error)
    CUT
    return Square(x).area(), text, isinstance(Square(1), Shape)


@program(graphs=1, breaks=(2, 4))
def generic_alias_of_a_class_inside(x, n):
    class Thing:
        pass

    made = list[Thing], tuple[Thing, ...], Thing | None, typing.Optional[Thing], typing.Dict[str, Thing]  # noqa: UP006, UP007
    CUT
    return x + n, [each.__args__.index(Thing) for each in made]


class Alias(types.GenericAlias):
    made: typing.ClassVar[list] = []

    def __new__(cls, origin, args):
        cls.made.append(args)
        return super().__new__(cls, origin, args)


class Boxed:
    __class_getitem__ = classmethod(Alias)


@program(graphs=1, breaks=(2, 4), recompiles=False)
def classes_whose_aliases_a_class_makes(x, n):
    Alias.made.clear()
    made = collections.abc.Callable[[int], str], collections.abc.Mapping[str, int], Boxed[int]
    CUT
    return x + n, [(each.__origin__, each.__args__) for each in made], list(Alias.made)


@functools.lru_cache
def itself(cls):
    return cls


@program(graphs=1, breaks=1)
def class_inside_in_a_cache(x, n):
    class Thing:
        pass

    CUT
    return x + n, itself(Thing) is Thing, isinstance(Thing(), (int, (str, Thing)))


@program(graphs=1, breaks=2)
def dataclass_inside(x, n):
    @dataclasses.dataclass
    class Config:
        width: int
        scale: float = 2.0

    config = Config(n)
    CUT
    return x * config.width + config.scale, config == Config(n)


@program(graphs=1, breaks=1)
def enum_inside(x, n):
    class Colour(enum.Enum):
        RED = 1
        GREEN = 2

    CUT
    return x * Colour.GREEN.value, Colour(1).name, len(Colour)


@program(graphs=1, breaks=1)
def typed_namedtuple_inside(x, n):
    class Pair(typing.NamedTuple):
        a: typing.Any
        b: int = 2

    pair = Pair(x)
    CUT
    return pair.a * pair.b


@program(graphs=1, breaks=1)
def exception_class_inside(x, n):
    class Problem(ValueError):
        def __init__(self, code):
            super().__init__(f"code {code}")
            self.code = code

    try:
        raise Problem(n)
    except ValueError as error:
        CUT
        return x * error.code, str(error), isinstance(error, Problem)


@program(graphs=1, breaks=3)
def class_decorators(x, n):
    def register(cls):
        cls.registered = cls.__name__
        return cls

    def tagged(tag):
        def decorate(cls):
            cls.tag = tag
            return cls

        return decorate

    @register
    @tagged("t")
    class Thing:
        pass

    CUT
    return x + 1, Thing.registered, Thing.tag


@program(graphs=1, breaks=2)
def class_attributes_changed_after(x, n):
    class Counter:
        count = 0

        def step(self):
            Counter.count += 1
            return Counter.count

    counter = Counter()
    counter.step()
    CUT
    counter.step()
    Counter.extra = "late"
    return x * Counter.count, counter.extra


class Prepares(type):
    def __prepare__(name, bases, **kwargs):
        return {"given": (name, kwargs)}

    def __new__(mcs, name, bases, namespace, **kwargs):
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, *args, **kwargs): ...


class PreparesByFunction(type):
    @staticmethod
    def __prepare__(name, bases):
        return {"given": name}


@program(graphs=1, breaks=2)
def namespaces_that_are_prepared(x, n):
    class One(metaclass=Prepares, z=3):
        pass

    class Two(metaclass=PreparesByFunction):
        again = given  # noqa: F821

    CUT
    return x + n, One.given, Two.given, Two.again


class Kept(type):
    """Keeps an attribute of its classes elsewhere."""

    kept: typing.ClassVar[dict] = {}

    @property
    def place(cls):
        return cls.kept.get(cls.__name__, "nowhere")

    @place.setter
    def place(cls, value):
        cls.kept[cls.__name__] = value


@program(graphs=1, breaks=2)
def names_that_the_metaclass_has_descriptors_for(x, n):
    Kept.kept.clear()

    class Thing(metaclass=Kept):
        __class__ = 413
        place = "in the body"

    before = Thing.place
    Thing.place = "set"
    CUT
    return x + 1, before, Thing.place, Thing.__dict__["place"], Thing().__class__, type(Thing()) is Thing


@program(graphs=3, breaks=3)
def class_in_a_loop(x, n):
    out = []
    for i in range(n):

        class Thing:
            number = i

            def apply(self, y):
                return y + self.number

        CUT
        out.append(Thing().apply(x))
    return out


@program(graphs=1, breaks=1)
def class_made_by_type(x, n):
    Thing = type("Thing", (Base,), {"extra": n, "method": lambda self: self.x + self.extra})
    thing = Thing(x)
    CUT
    return thing.method(), Thing.__name__, thing.scaled(2)


@program(graphs=1, breaks=1)
def class_keeps_its_cell(x, n):
    class Thing:
        def which(self):
            return __class__

    thing = Thing()
    CUT
    return x + 1, thing.which() is Thing


@program(graphs=1, breaks=1)
def module_class_inside(x, n):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.by = n

        def forward(self, y):
            return y * self.by

    return Layer()(x)


@program(graphs=1, breaks=1)
def cached_property_inside(x, n):
    class Thing:
        @functools.cached_property
        def table(self):
            return [n]

    thing = Thing()
    thing.table.append(1)
    CUT
    return x + 1, thing.table


@program(graphs=1, breaks=1)
def error_in_the_body(x, n):
    y = x + 1
    try:

        class Thing:
            value = 1 // 0
    except ZeroDivisionError as error:
        return y, str(error)


@program(graphs=2, breaks=1)
def print_in_the_body(x, n):
    y = x + 1

    class Thing:
        print("in the body")
        value = 3

    return y * Thing.value


class Maker(type):
    def __new__(mcls, name, bases, attrs):
        return type.__new__(mcls, name, bases, attrs)


@program(graphs=1, breaks=2)
def metaclass_with_an_mro_of_its_own(x, n):
    asked = []

    class Meta(Maker):
        def mro(cls):
            asked.append(cls.__name__)
            return type.mro(cls)

    class Thing(metaclass=Meta):
        size = 2

    CUT
    return x * Thing.size, asked


@program(graphs=1, breaks=2)
def a_view_of_its_namespace_sees_later_changes(x, n):
    class Made:
        a = 1

        def method(self):
            return 3

    view = Made.__dict__
    CUT
    Made.b = x
    return view["b"] + 1, view["method"](None), {k: type(v).__name__ for k, v in view.items() if k[0] != "_"}


@pytest.mark.parametrize("place, kind", program.parameters())
def test_program(place: Place, kind: str) -> None:
    run_program(place, kind)


def test_the_break_says_what_to_do():
    def fn(x):
        class Local:
            by = 2

        return x * Local.by

    with pytest.raises(dl.exc.Unsupported, match=r"class Local is created(?s:.)*outside of the compiled function"):
        dl.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))
