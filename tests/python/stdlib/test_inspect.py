"""Introspection of functions, classes and types: inspect, typing, types, collections.abc."""

from __future__ import annotations

import abc
import collections.abc
import inspect
import sys
import types
import typing
from typing import Optional, Protocol, Union

import torch

from collector import Programs
from outcomes import outcomes
from programs import check, checked, recompiling, tensor

programs = Programs()


def sample(a, b: int = 2, *args, c: str = "c", **named) -> int:
    """A sample."""
    return a


class Shape(abc.ABC):
    sides = 0

    def __init__(self, n=1):
        self.n = n

    @abc.abstractmethod
    def area(self, x, scale=1): ...

    @staticmethod
    def helper(v):
        return v

    @property
    def size(self):
        return self.n


class Square(Shape):
    sides = 4

    def area(self, x, scale=1):
        return x * x * scale


class_dict = type.__dict__["__dict__"].__get__


@programs(tensor(2), Square, graphs=None)
def attributes_without_descriptors(x, cls):
    found = inspect.getattr_static(cls, "sides"), inspect.getattr_static(cls, "area") is Square.area
    missing = inspect.getattr_static(cls, "absent", 3), class_dict(cls)["sides"]
    names = [each.__name__ for each in type.__dict__["__mro__"].__get__(cls)]
    try:
        class_dict(3)
    except TypeError as error:
        return x + found[0], found, missing, names, str(error), id(cls) // (id(cls) + 1)


class Shadowed(Square):
    __dict__ = {"n": 7}


class Slotted:
    __slots__ = ("n",)


@programs(tensor(2), Square(3), Shadowed(4), graphs=None)
def attributes_of_objects_without_descriptors(x, square, shadowed):
    names = "n", "sides", "absent"
    found = [[inspect.getattr_static(each, name, 5) for name in names] for each in (square, shadowed)]
    return x * found[0][0], found, inspect.getattr_static(square, "size") is Shape.size


@programs(tensor(2), Square(3), Slotted(), graphs=None)
def dicts_and_weak_references_by_their_descriptors(x, square, slotted):
    """Where all classes share these descriptors, they apply to any object."""
    read, refer = vars(Shape)["__dict__"].__get__, vars(Shape)["__weakref__"].__get__
    found = outcomes(lambda: read(square)["n"], lambda: read(slotted), lambda: read([]), lambda: len(read(Shape)))
    references = outcomes(lambda: refer(square), lambda: refer(slotted), lambda: refer(Slotted) is None)
    return x + 1, found, references


class Disguised:
    __class__ = Square


@programs(tensor(2), Square(3), Disguised(), graphs=None)
def classes_by_the_descriptor_of_all_objects(x, square, disguised):
    """A descriptor that tensors inherit reads no attribute of an object whose class has another one."""
    read, shape = vars(object)["__class__"].__get__, torch.Tensor.shape.__get__
    found = [read(each).__name__ for each in (x, square, disguised)]
    return x + 1, found, disguised.__class__.__name__, shape(x), outcomes(lambda: shape(square), lambda: shape())


@programs(tensor(2), graphs=None)
def what_things_are(x):
    things = sample, Square, Square(1).area, len, torch, 3, sample.__code__, Square.size, (v for v in ())
    asks = "function class method builtin module code routine generator abstract generatorfunction coroutinefunction"
    return x + 1, [[getattr(inspect, "is" + ask)(thing) for ask in asks.split()] for thing in things]


@programs(tensor(2), graphs=None)
def which_classes_are_abstract(x):
    return x + inspect.isabstract(Shape), inspect.isabstract(Square), inspect.isabstract(int)


@programs(tensor(2), graphs=None)
def the_members_of_a_class(x):
    names = [name for name, value in inspect.getmembers(Square, inspect.isfunction) if not name.startswith("_")]
    return x + len(names), names, inspect.getdoc(sample), inspect.getmodule(sample).__name__


@programs(tensor(2), graphs=None)
def unwrap_and_mro(x):
    return x + 1, inspect.unwrap(sample) is sample, inspect.getmro(Square), Square.mro()[0], Square.__mro__[1].__name__


@programs(tensor(2))
def attributes_of_code(x):
    code = sample.__code__
    found = code.co_varnames, code.co_name, code.co_kwonlyargcount
    return x + code.co_argcount, found, sample.__defaults__, sample.__kwdefaults__, sample.__name__


@programs(tensor(2), graphs=None)
@recompiling
def annotations_of_functions_and_classes(x):
    class Holder:
        a: int = 1

    return x + 1, sample.__annotations__, typing.get_type_hints(sample), sample.__annotations__["b"]


@programs(tensor(2))
def casts_and_other_things_that_do_nothing(x):
    y = typing.cast(torch.Tensor, x)
    z = typing.cast("torch.Tensor", x)
    if typing.TYPE_CHECKING:
        y = None
    return y + 1, z is x, typing.no_type_check(sample) is sample


@programs(tensor(2))
def origins_and_arguments(x):
    kinds = (
        list[int],
        dict[str, int],
        Optional[int],
        Union[int, str],
        int | None,
        tuple[int, ...],
        typing.Callable[[int], str],
    )
    return (
        x + 1,
        [typing.get_origin(kind) for kind in kinds],
        [typing.get_args(kind) for kind in kinds],
        kinds[0].__origin__,
        kinds[1].__args__,
    )


class Scales(Protocol):
    def scale(self, v): ...


@typing.runtime_checkable
class Closes(Protocol):
    def close(self): ...


class Door:
    def close(self):
        return "closed"

    def scale(self, v):
        return v * 2


@programs(tensor(2), Door(), graphs=None)
def protocols(x, door):
    def use(s: Scales):
        return s.scale(x)

    return use(door), isinstance(door, Closes), isinstance(3, Closes), issubclass(Door, Closes)


ABSTRACT = "Sequence Mapping Iterable Callable Hashable Sized Iterator MutableSet".split()
ABSTRACT = [getattr(collections.abc, name) for name in ABSTRACT]


@programs(tensor(2), [1, 2])
def the_classes_of_collections_abc(x, items):
    things = items, (1,), {}, set(), "a", 3, len, Door(), iter(items), x
    found = [[isinstance(thing, kind) for kind in ABSTRACT] for thing in things]
    return x + 1, found, issubclass(dict, collections.abc.MutableMapping)


@programs(tensor(2), types.SimpleNamespace(scale=2, deep=types.SimpleNamespace(bias=1)))
def a_simple_namespace_from_outside(x, options):
    options.used = True
    return x * options.scale + options.deep.bias, getattr(options, "other", 7), options


@programs(tensor(2))
def bound_methods_by_hand(x):
    def scale(self, v):
        return v * self.n

    square = Square(3)
    square.scale = types.MethodType(scale, square)
    f = square.area
    return square.scale(x), f.__self__ is square, f.__func__ is Square.area, f.__name__, square.area == square.area


@programs(tensor(2), graphs=None)
def functions_by_hand(x):
    other = types.FunctionType(sample.__code__, globals(), "other", (7,))
    return x + other(1), other.__name__, other.__defaults__


@programs(tensor(2))
def types_of_the_types_module(x):
    facts = (
        isinstance(len, types.BuiltinFunctionType),
        isinstance(torch, types.ModuleType),
        isinstance(Square(1).area, types.MethodType),
        isinstance(None, types.NoneType),
        isinstance((v for v in ()), types.GeneratorType),
        isinstance(int | str, types.UnionType),
        isinstance(lambda: 0, types.LambdaType),
    )
    return x + 1, facts


test_inspect = programs.test()


def takes(a, b=1, *c, d, e=4, **f):
    pass


SIGNATURE = inspect.signature(takes)


@checked(tensor(3))
def test_signature_made_outside(x):
    bound = SIGNATURE.bind(x, 2, 3, d=5, g=6)
    bound.apply_defaults()
    return bound.arguments["a"] + bound.arguments["e"], list(bound.arguments), bound.args[1:], bound.kwargs


def test_a_callee_inspects_the_frame_of_its_caller():
    def who():
        return sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno

    def fn(x):
        y = x + 1
        name = who()
        return y * 2, name

    check(fn, tensor(2), graphs=None)
