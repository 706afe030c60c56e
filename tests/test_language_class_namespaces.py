"""``__dict__`` of classes that are made inside."""

from __future__ import annotations

import abc

import pytest

import dynamo_lite as dl
from programs import check, tensor
from table import Table

programs = Table()


@programs(tensor(2), graphs=1)
def asked_before_and_after_it_is_written(x):
    class Made:
        a = 1

    seen = ["a" in Made.__dict__, "b" in Made.__dict__, "__weakref__" in Made.__dict__, "__hash__" in vars(Made)]
    Made.b = 2
    seen += ["b" in Made.__dict__, Made.__dict__["b"], Made.__dict__.get("c"), [n for n in vars(Made) if n[0] != "_"]]
    del Made.a
    return x + 1, seen, "a" in Made.__dict__, len(Made.__dict__)


@programs(tensor(2), graphs=1)
def a_view_sees_later_changes(x):
    class Made:
        a = 1

        def method(self):
            return 3

    view = Made.__dict__
    Made.b = x
    return view["b"] + 1, view["method"](None), {k: type(v).__name__ for k, v in view.items() if k[0] != "_"}


@programs(tensor(2), graphs=1)
def descriptors_as_they_were_written(x):
    class Made(abc.ABC):
        kept = x

        @staticmethod
        def static():
            return 1

        @property
        def prop(self):
            return 2

        @abc.abstractmethod
        def needed(self):
            """What others have to write."""

    found = [name for name, value in Made.__dict__.items() if isinstance(value, (staticmethod, property))]
    return Made.__dict__["kept"] + 1, found, vars(Made)["prop"].fget(None), Made.__dict__["__abstractmethods__"]


@programs(tensor(2), graphs=1, cut=False)  # after a break it is another class in each call
def who_defines_a_name(x):
    class Base:
        """Of others."""

        def shared(self):
            return 1

    class Derived(Base):
        own = 1

    names = ("shared", "own", "__init__", "neither")
    owners = [next((each.__name__ for each in Derived.__mro__ if name in each.__dict__), None) for name in names]
    return x * 2, owners, Base.__dict__["__doc__"], Derived.__dict__["__module__"] == __name__


@programs(tensor(2), graphs=1)
def names_of_an_instance(x):
    class Made:
        a = 1

    made = Made()
    before = [name for name in dir(made) if name[0] != "_"]
    Made.b = 2
    return x + 1, before, [name for name in dir(made) if name[0] != "_"]


@pytest.mark.parametrize("case", programs.parameters())
def test_programs(case):
    case.run()


def test_what_leaves_is_the_class_s_own():
    def fn(x):
        class Made:
            a = 1

        return Made, Made.__dict__, x + 1

    made, view, _ = dl.compile(fn, backend="eager")(tensor(2))
    made.b = 2
    assert view == vars(made) and view["b"] == 2


def test_over_a_break():
    def fn(x):
        class Made:
            a = 1

        view = Made.__dict__
        dl.graph_break()
        return x + view["a"], sorted(name for name in view if name[0] != "_")

    check(fn, tensor(2), breaks=1, graphs=1)
