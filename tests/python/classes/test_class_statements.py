"""``class`` statements in a compiled function: the graph breaks there, CPython creates the class, and the rest is
captured. Closures, bases and metaclasses are as in eager."""

from __future__ import annotations

import dataclasses
import enum
import typing

import pytest
import torch

import dynamo_lite as dl
from collector import Programs
from programs import check, recompiling, tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


class Base:
    seen: typing.ClassVar[list] = []

    def __init__(self, x):
        self.x = x

    def scaled(self, by):
        return self.x * by


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


@program(graphs=1, breaks=1)
@recompiling
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
@recompiling
def super_after_a_break(x, n):
    class Derived(Base):
        def scaled(self, by):
            return super().scaled(by) + 1

    d = Derived(x)
    CUT
    return d.scaled(n), isinstance(d, Base)


@program(graphs=1, breaks=2)
@recompiling
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
@recompiling
def metaclass_new_init_and_call(x, n):
    class Thing(metaclass=Meta):
        def __init__(self, value):
            self.value = value

    thing = Thing(x + 1)
    CUT
    return thing.value, thing.called, Thing.made_by, type(Thing).__name__, Thing.options


@program(graphs=1, breaks=2)
@recompiling
def dataclass_inside(x, n):
    @dataclasses.dataclass
    class Config:
        width: int
        scale: float = 2.0

    config = Config(n)
    CUT
    return x * config.width + config.scale, config == Config(n)


@program(graphs=1, breaks=1)
@recompiling
def enum_inside(x, n):
    class Colour(enum.Enum):
        RED = 1
        GREEN = 2

    CUT
    return x * Colour.GREEN.value, Colour(1).name, len(Colour)


@program(graphs=1, breaks=1)
@recompiling
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


@program(graphs=None, breaks=None)
@recompiling
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


@program(graphs=3, breaks=3)
@recompiling
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
@recompiling
def module_class_inside(x, n):
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.by = n

        def forward(self, y):
            return y * self.by

    return Layer()(x)


@program(graphs=1, breaks=1)
@recompiling
def error_in_the_body(x, n):
    y = x + 1
    try:

        class Thing:
            value = 1 // 0
    except ZeroDivisionError as error:
        return y, str(error)


@program(graphs=2, breaks=1)
@recompiling
def print_in_the_body(x, n):
    y = x + 1

    class Thing:
        print("in the body")
        value = 3

    return y * Thing.value


@program(graphs=1, breaks=2)
@recompiling
def a_view_of_its_namespace_sees_later_changes(x, n):
    class Made:
        a = 1

        def method(self):
            return 3

    view = Made.__dict__
    CUT
    Made.b = x
    return view["b"] + 1, view["method"](None), {k: type(v).__name__ for k, v in view.items() if k[0] != "_"}


test_program = program.test()


def test_hint_of_the_break_says_what_to_do():
    def fn(x):
        class Local:
            by = 2

        return x * Local.by

    with pytest.raises(dl.exc.Unsupported, match=r"class Local is created(?s:.)*outside of the compiled function"):
        dl.compile(fn, backend="eager", fullgraph=True)(torch.ones(2))


class Registered:
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.doubled = OF_CLASS * 2


OF_CLASS = tensor(3)


def test_a_hook_for_subclasses_that_calls_the_next_one():
    """The next method is in C and bound to the class: reading its name of the class would find the hook again."""

    def fn():
        class Derived(Registered):
            pass

        return Derived.doubled + 1

    check(fn, graphs=None)
    with dl.enable(backend="eager"):
        assert torch.equal(fn(), OF_CLASS * 2 + 1)
