"""Classes, modules and functions that guards depend on, changed between calls."""

from __future__ import annotations

import builtins
import collections
import enum
import types

import torch

import dynamo_lite as dl
from programs import Recorder, tensor
from scenarios import scenario


def times_k(o, x):
    return x * o.k


class Gives:
    """A descriptor without a setter."""

    def __get__(self, instance, owner):
        return 13


class One:
    pass


class Two:
    pass


def fresh_gives():
    return type("Fresh", (Gives,), {"__get__": Gives.__get__})


@scenario
def test_property_precedes_an_instance_attribute(compiled, seen):
    class A:
        pass

    f, o = compiled(times_k), A()
    o.k = 2
    seen.call(f, o, tensor(2))
    A.k = property(lambda self: 11)
    seen.call(f, o, tensor(2))
    del A.k
    seen.call(f, o, tensor(2))


@scenario
def test_a_descriptor_is_given_a_setter(compiled, seen):
    kind = fresh_gives()

    class A:
        pass

    f, o = compiled(times_k), A()
    o.k = 2
    seen.call(f, o, tensor(2))
    A.k = kind()
    seen.call(f, o, tensor(2))
    kind.__set__ = lambda *args: None
    seen.call(f, o, tensor(2))
    del kind.__set__
    seen.call(f, o, tensor(2))


@scenario
def test_a_class_attribute_becomes_a_descriptor(compiled, seen):
    class Value:
        def __mul__(self, other):
            return other * 5

        __rmul__ = __mul__

    class A:
        k = Value()

    f, o = compiled(lambda o, x: o.k * x), A()
    seen.call(f, o, tensor(2))
    Value.__get__ = lambda self, instance, owner: 3
    seen.call(f, o, tensor(2))


@scenario
def test_bases_are_assigned(compiled, seen):
    class A(One):
        pass

    f, o = compiled(lambda o, x: x * 2 if isinstance(o, Two) else x * 3), A()
    g = compiled(lambda x: x + 1 if issubclass(A, One) else x - 1)
    for bases in ((One,), (Two,), (One, Two), (Two,)):
        A.__bases__ = bases
        seen.call(f, o, tensor(2))
        seen.call(g, tensor(2))


@scenario
def test_a_changed_mro_is_guarded(compiled, seen):
    class A(One):
        pass

    f = compiled(lambda x: x + len(A.__mro__) if A.__bases__[0] is One else x - len(A.__mro__))
    for bases in ((One,), (Two,), (One, Two)):
        A.__bases__ = bases
        seen.call(f, tensor(2))


@scenario
def test_a_metaclass_is_given_a_property(compiled, seen):
    class Meta(type):
        k = 2

    class A(metaclass=Meta):
        pass

    f = compiled(lambda x: x * A.k)
    seen.call(f, tensor(2))
    A.k = 6
    seen.call(f, tensor(2))
    Meta.k = property(lambda cls: 10)
    seen.call(f, tensor(2))


@scenario
def test_a_module_is_given_another_class(compiled, seen):
    class Module(types.ModuleType):
        @property
        def k(self):
            return 77

    module = types.ModuleType("module")
    module.k = 2
    # Not `module.k`: in eager, the LOAD_ATTR that 3.14 specializes doesn't see that the module has another class.
    f = compiled(lambda x: x * getattr(module, "k"))  # noqa: B009
    seen.call(f, tensor(2))
    module.__class__ = Module
    seen.call(f, tensor(2))


@scenario
def test_names_of_functions_and_classes(compiled, seen):
    def h():
        """Says something."""

    class A:
        """Says something as well."""

        k: int = 1

    def f(x):
        return x + len(h.__name__) + 10 * len(h.__doc__), A.__name__, A.__qualname__, A.__doc__, len(A.__annotations__)

    f = compiled(f)
    seen.call(f, tensor(2))
    of_class = (A, "__name__", "B"), (A, "__qualname__", "C"), (A, "__doc__", "Else.")
    for change in ((h, "__name__", "another"), (h, "__doc__", "Another."), *of_class):
        setattr(*change)
        seen.call(f, tensor(2))
    A.__annotations__["j"] = int
    seen.call(f, tensor(2))


@scenario
def test_a_named_tuples_field_is_replaced(compiled, seen):
    Pair = collections.namedtuple("Pair", "a b")

    class Other(Pair):
        @property
        def b(self):
            return self[1] * 100

    f = compiled(lambda p, x: x * p.a + p.b)
    seen.call(f, Pair(2, 3), tensor(2))
    seen.call(f, Other(2, 3), tensor(2))
    Pair.a = property(lambda self: 40)
    seen.call(f, Pair(2, 3), tensor(2))


@scenario
def test_a_members_value_is_changed(compiled, seen):
    class E(enum.Enum):
        A = 1
        B = 2

    f, g = compiled(lambda x: x * E.A.value), compiled(lambda e, x: x * e.value if e.name == "A" else x - e.value)
    for value in (1, 10):
        E.A._value_ = value
        seen.call(f, tensor(2))
        seen.call(g, E.A, tensor(2))
        seen.call(g, E.B, tensor(2))
    E.A._name_ = "C"
    seen.call(g, E.A, tensor(2))


@scenario
def test_a_builtin_is_added(compiled, seen):
    def f(x):
        try:
            return x + comes_to_be  # noqa: F821
        except NameError:
            return x - 1

    f = compiled(f)
    seen.call(f, tensor(2))
    builtins.comes_to_be = 7
    try:
        seen.call(f, tensor(2))
    finally:
        del builtins.comes_to_be
    seen.call(f, tensor(2))


@scenario
def test_super_follows_a_changed_base_class(compiled, seen):
    class One:
        def m(self):
            return 1

    class Two:
        def m(self):
            return 2

    class Between(One):
        pass

    class A(Between):
        def m(self):
            return super().m() * 10

    f, o = compiled(lambda o, x: x * o.m()), A()
    seen.call(f, o, tensor(2))
    Between.m = lambda self: 5
    seen.call(f, o, tensor(2))
    del Between.m
    seen.call(f, o, tensor(2))
    A.__bases__ = (Two,)
    seen.call(f, o, tensor(2))
    A.__bases__ = (Two, One)
    del Two.m
    seen.call(f, o, tensor(2))


@scenario
def test_except_clause_follows_a_changed_class(compiled, seen):
    class One(Exception):
        pass

    class Two(Exception):
        pass

    class Raised(One):
        pass

    def f(x):
        try:
            raise Raised("raised")
        except Two:
            return x + 2
        except One:
            return x + 1

    f = compiled(f)
    seen.call(f, tensor(2))
    Raised.__bases__ = (Two,)
    seen.call(f, tensor(2))


@scenario
def test_class_pattern_follows_a_changed_class(compiled, seen):
    class A:
        __match_args__ = ("a", "b")
        a, b = 1, 2

    def f(o, x):
        match o:
            case A(1, y):
                return x + y
            case A(z):
                return x * z

    f = compiled(f)
    seen.call(f, A(), tensor(2))
    A.__match_args__ = ("b", "a")
    seen.call(f, A(), tensor(2))


def test_a_method_is_replaced_on_its_class_and_on_an_instance():
    class Thing:
        def get(self):
            return 1

    def fn(x, thing):
        return x * thing.get()

    compiled = dl.compile(fn, backend=Recorder())
    thing, x = Thing(), torch.ones(2)
    assert torch.equal(compiled(x, thing), x)
    Thing.get = lambda self: 2
    assert torch.equal(compiled(x, thing), x * 2)
    thing.get = lambda: 3
    assert torch.equal(compiled(x, thing), x * 3)
    thing.__class__ = type("Other", (), {"get": lambda self: 4})
    del thing.get
    assert torch.equal(compiled(x, thing), x * 4)


def test_the_code_of_a_callee_is_replaced():
    def helper(x):
        return x * 2

    def other(x):
        return x * 3

    def fn(x):
        return helper(x)

    compiled = dl.compile(fn, backend=Recorder())
    x = torch.ones(2)
    assert torch.equal(compiled(x), x * 2)
    helper.__code__ = other.__code__
    assert torch.equal(compiled(x), x * 3)


def test_guards_tell_functions_apart_whose_addresses_are_reused():
    def fn(x, f):
        return f(x)

    compiled = dl.compile(fn, backend=Recorder())
    x = torch.ones(2)
    for n in range(20):
        f = eval(f"lambda v: v * {n}")
        assert torch.equal(compiled(x, f), x * n)
        del f
