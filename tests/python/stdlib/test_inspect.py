"""What programs ask of functions, classes and types: inspect, typing, types, collections.abc."""

from __future__ import annotations

import abc
import collections.abc
import inspect
import types
import typing
from typing import Any, Generic, NamedTuple, Optional, Protocol, TypeVar, Union

import pytest
import torch

from programs import check, tensor
from table import Table

programs = Table()
T = TypeVar("T")


def sample(a, b: int = 2, *args, c: str = "c", **named) -> int:
    """A sample."""
    return a


class Shape(abc.ABC):
    sides = 0

    def __init__(self, n=1):
        self.n = n

    @abc.abstractmethod
    def area(self, x, scale=1): ...

    @classmethod
    def make(cls):
        return cls()

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


@programs(tensor(2))
def the_signature_of_a_function(x):
    signature = inspect.signature(sample)
    names = list(signature.parameters)
    kinds = [p.kind for p in signature.parameters.values()]
    b = signature.parameters["b"]
    return x + len(names), names, kinds, b.default, b.annotation, b.name, b.default is inspect.Parameter.empty


class_dict = type.__dict__["__dict__"].__get__


@programs(tensor(2), Square)
def attributes_without_descriptors(x, cls):
    found = inspect.getattr_static(cls, "sides"), inspect.getattr_static(cls, "area") is Square.area
    missing = inspect.getattr_static(cls, "absent", 3), class_dict(cls)["sides"]
    names = [each.__name__ for each in type.__dict__["__mro__"].__get__(cls)]
    try:
        class_dict(3)
    except TypeError as error:
        return x + found[0], found, missing, names, str(error), id(cls) // (id(cls) + 1)


@programs(tensor(2), graphs=None)
def the_signature_of_methods_and_classes(x):
    a = (
        list(inspect.signature(Square(2).area).parameters),
        list(inspect.signature(Square.area).parameters),
        list(inspect.signature(Square).parameters),
    )
    b = "scale" in inspect.signature(Square(1).area).parameters, str(inspect.signature(sample))
    return x + len(a), a, b


@programs(tensor(2))
def only_what_a_function_takes_is_passed(x):
    options = {"scale": 3, "other": 4}
    area = Square(1).area
    kept = {k: v for k, v in options.items() if k in inspect.signature(area).parameters}
    return area(x, **kept), kept


@programs(tensor(2))
def a_signature_binds(x):
    bound = inspect.signature(sample).bind(1, c="d")
    bound.apply_defaults()
    return x + 1, dict(bound.arguments), bound.args, bound.kwargs


@programs(tensor(2), graphs=None)
def what_things_are(x):
    things = sample, Square, Square(1).area, len, torch, 3, sample.__code__, Square.size, (v for v in ())
    asks = (
        inspect.isfunction,
        inspect.isclass,
        inspect.ismethod,
        inspect.isbuiltin,
        inspect.ismodule,
        inspect.iscode,
        inspect.isroutine,
        inspect.isgenerator,
        inspect.isabstract,
    )
    return (
        x + 1,
        [[ask(thing) for ask in asks] for thing in things],
        inspect.isgeneratorfunction(sample),
        inspect.iscoroutinefunction(sample),
    )


class Unfinished(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Finished(Unfinished):
    def area(self):
        return 3


@programs(tensor(2), graphs=None)
def which_classes_are_abstract(x):
    return x + inspect.isabstract(Unfinished), inspect.isabstract(Finished), inspect.isabstract(int)


@programs(tensor(2), graphs=None)
def the_members_of_a_class(x):
    names = [name for name, value in inspect.getmembers(Square, inspect.isfunction) if not name.startswith("_")]
    return x + len(names), names, inspect.getdoc(sample), inspect.getmodule(sample).__name__


@programs(tensor(2), graphs=None)
def unwrap_and_mro(x):
    return x + 1, inspect.unwrap(sample) is sample, inspect.getmro(Square), Square.mro()[0], Square.__mro__[1].__name__


@programs(tensor(2), graphs=None)
def where_code_is(x):
    frame = inspect.currentframe()
    return (
        x + 1,
        frame.f_code.co_name,
        inspect.getfile(sample).endswith(".py"),
        inspect.getsource(sample).startswith("def"),
    )


@programs(tensor(2))
def attributes_of_code(x):
    code = sample.__code__
    return (
        x + code.co_argcount,
        code.co_varnames,
        code.co_name,
        code.co_kwonlyargcount,
        sample.__defaults__,
        sample.__kwdefaults__,
        sample.__name__,
    )


@programs(tensor(2), graphs=None, recompiles=True)
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
        list[int],
        typing.Callable[[int], str],
    )
    return (
        x + 1,
        [typing.get_origin(kind) for kind in kinds],
        [typing.get_args(kind) for kind in kinds],
        kinds[0].__origin__,
        kinds[1].__args__,
    )


@programs(tensor(2), Optional[int], others=[(tensor(2), int)])
def an_annotation_chooses(x, kind):
    if typing.get_origin(kind) is Union and type(None) in typing.get_args(kind):
        return x + 1
    return x * 2


class Box(Generic[T]):
    def __init__(self, item: T):
        self.item = item

    def get(self) -> T:
        return self.item


@programs(tensor(2))
def a_generic_class(x):
    a, b = Box(x), Box[int](3)
    return a.get() * b.get(), type(b) is Box, isinstance(b, Box), Box[int] is not Box


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


@programs(tensor(2), Door())
def protocols(x, door):
    def use(s: Scales):
        return s.scale(x)

    return use(door), isinstance(door, Closes), isinstance(3, Closes), issubclass(Door, Closes)


@programs(tensor(2))
def abstract_base_classes(x):
    square = Square.make()
    try:
        Shape()
    except TypeError as error:
        message = "abstract" in str(error)
    return (
        square.area(x),
        isinstance(square, Shape),
        issubclass(Square, Shape),
        message,
        Shape.helper(3),
        Square.__abstractmethods__,
    )


@programs(tensor(2), [1, 2])
def the_classes_of_collections_abc(x, items):
    kinds = (
        collections.abc.Sequence,
        collections.abc.Mapping,
        collections.abc.Iterable,
        collections.abc.Callable,
        collections.abc.Hashable,
        collections.abc.Sized,
        collections.abc.Iterator,
        collections.abc.MutableSet,
    )
    things = items, (1,), {}, set(), "a", 3, len, Door(), iter(items), x
    return (
        x + 1,
        [[isinstance(thing, kind) for kind in kinds] for thing in things],
        issubclass(dict, collections.abc.MutableMapping),
    )


class Pages(collections.abc.Sequence):
    def __init__(self, pages):
        self.pages = pages

    def __getitem__(self, at):
        return self.pages[at]

    def __len__(self):
        return len(self.pages)


@programs(tensor(2), [3, 1, 2])
def a_sequence_by_its_mixins(x, items):
    pages = Pages(items)
    return (
        x + pages.index(1),
        list(pages),
        2 in pages,
        list(reversed(pages)),
        pages.count(3),
        len(pages),
        isinstance(pages, collections.abc.Sequence),
    )


class Lower(collections.abc.MutableMapping):
    def __init__(self, **values):
        self.store = dict(values)

    def __getitem__(self, key):
        return self.store[key.lower()]

    def __setitem__(self, key, value):
        self.store[key.lower()] = value

    def __delitem__(self, key):
        del self.store[key.lower()]

    def __iter__(self):
        return iter(self.store)

    def __len__(self):
        return len(self.store)


@programs(tensor(2), Lower(a=1))
def a_mapping_by_its_mixins(x, table):
    table["B"] = x
    table.update(C=2)
    a = (
        table.get("A"),
        table.pop("c"),
        "B" in table,
        "z" in table,
        list(table.items())[0],
        table.setdefault("D", 5),
        dict(table)["d"],
    )
    return table["b"] + 1, a, list(table), len(table), {**table}["a"]


@programs(tensor(2), 3)
def a_simple_namespace(x, n):
    made = types.SimpleNamespace(a=x, n=n)
    made.b = made.a * made.n
    made.n += 1
    del made.a
    return (
        made.b,
        made.n,
        hasattr(made, "a"),
        vars(made)["n"],
        made,
        made == types.SimpleNamespace(b=made.b, n=4) if n == 99 else None,
    )


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


@programs(tensor(2))
def descriptors_by_hand(x):
    get = Square.__dict__ if False else None
    return (
        x + 1,
        Square.area.__get__(Square(2))(x),
        sample.__get__(1)() == 1,
        types.FunctionType is type(sample),
        isinstance(sample, types.FunctionType),
        get,
    )


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


@programs(tensor(2), graphs=None)
def a_read_only_view_of_a_dict(x):
    table = {"a": 1}
    view = types.MappingProxyType(table)
    table["b"] = 2
    return x + view["b"], list(view), len(view), "a" in view, view.get("c", 3), dict(view), {**view}


class Point(NamedTuple):
    a: Any
    b: int = 2


@programs(tensor(2))
def named_tuples_by_their_facts(x):
    p = Point(x)
    return (
        p.a + p.b,
        Point._fields,
        Point._field_defaults,
        p._asdict()["b"],
        p._replace(b=3),
        Point._make([1, 2]),
        Point.__annotations__["b"] if False else 0,
        isinstance(p, tuple),
    )


@pytest.mark.parametrize("case", programs.parameters())
def test_inspect(case):
    case.run()


def takes(a, b=1, *c, d, e=4, **f):
    pass


SIGNATURE = inspect.signature(takes)


def test_signature_made_outside():
    def fn(x):
        bound = SIGNATURE.bind(x, 2, 3, d=5, g=6)
        bound.apply_defaults()
        return bound.arguments["a"] + bound.arguments["e"], list(bound.arguments), bound.args[1:], bound.kwargs

    check(fn, tensor(3))


def test_signature_that_arguments_do_not_fit():
    def fn(x):
        try:
            SIGNATURE.bind(x)
        except TypeError as error:
            return x + 1, str(error)

    check(fn, tensor(3))


def test_parameters_of_a_signature():
    def fn(x):
        parameters = SIGNATURE.parameters
        same = parameters is SIGNATURE.parameters, isinstance(parameters, dict), type(parameters)
        return x + len(parameters), same, parameters["b"].default, SIGNATURE, SIGNATURE.bind_partial(x).arguments

    check(fn, tensor(3))
