"""Descriptors and attribute hooks, slots, methods, construction, copying, weak references, finalizers."""

from __future__ import annotations

import copy
import dataclasses
import functools
import typing
import weakref

import pytest
import torch

from cuts import Place, Programs, run_program
from programs import tensor

program = Programs()
CUT = None


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name
        self.owner = owner.__name__

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        return getattr(instance, self.name, "unset")

    def __set__(self, instance, value):
        setattr(instance, self.name, value * 2)

    def __delete__(self, instance):
        delattr(instance, self.name)


class Described:
    value = Descriptor()
    other = Descriptor()

    def __init__(self, value=None):
        if value is not None:
            self.value = value


@program()
def descriptors_with_set_name(x, n):
    d = Described(x)
    before = d.other
    d.other = n
    CUT
    del d.value
    return d.other, before, d.value, Described.value.name, Described.value.owner


class Nameless:
    def __set_name__(self, owner, name):
        raise ValueError(f"no {name}")


@program(breaks=(1, 2))
def a_name_is_refused(x, n):
    """What this raises is another error on CPython 3.11, one with a note from 3.12 on."""
    try:

        class Made:
            one = Nameless()

    except Exception as error:
        CUT
        kinds = [type(each) for each in (error, error.__cause__, error.__context__)]
        return x + n, str(error), kinds, getattr(error, "__notes__", None)
    return x, Made


class Stored:
    """A data descriptor that is not asked where it is read: what the instance has comes first."""

    def __set__(self, instance, value):
        instance.__dict__["kept"] = value * 2


class Dropped:
    def __delete__(self, instance):
        del instance.__dict__["dropped"]


class Keeping(type):
    plain = Stored()


class Keeps(metaclass=Keeping):
    kept, dropped, plain = Stored(), Dropped(), 5

    def __init__(self, n):
        self.kept = n
        self.__dict__["dropped"] = n


@program()
def descriptors_that_are_written_only(x, n):
    thing = Keeps(n)
    CUT
    before = thing.kept, thing.dropped, Keeps.plain
    thing.kept = x
    del thing.dropped
    CUT
    empty = Keeps.__new__(Keeps)
    return before, thing.kept, thing.dropped is Keeps.dropped, empty.kept is Keeps.kept


class Lazy:
    calls = 0

    @functools.cached_property
    def table(self):
        self.calls += 1
        return [self.calls]


@program()
def cached_property_is_computed_once(x, n):
    lazy = Lazy()
    first = lazy.table
    CUT
    return x + lazy.calls, lazy.table is first, lazy.__dict__


class Watched:
    """Every attribute access goes through Python."""

    def __init__(self):
        object.__setattr__(self, "log", [])
        object.__setattr__(self, "value", 1)

    def __getattribute__(self, name):
        if name == "log" or name.startswith("__"):
            return object.__getattribute__(self, name)
        object.__getattribute__(self, "log").append("get " + name)
        return super().__getattribute__(name)

    def __getattr__(self, name):
        return "fallback " + name

    def __setattr__(self, name, value):
        self.log.append("set " + name)
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self.log.append("del " + name)
        super().__delattr__(name)


@program()
def attribute_hooks(x, n):
    w = Watched()
    w.value += n
    y = w.value
    CUT
    del w.value
    return x * y, w.value, w.log, w.nothing


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


class SlottedChild(Slotted):
    __slots__ = ("c",)


@program()
def slots_unset_deleted_and_unknown(x, n):
    s = SlottedChild(x)
    s.c = n
    log = []
    for name in ("b", "d"):
        try:
            getattr(s, name)
        except AttributeError as error:
            log.append(str(error))
    CUT
    del s.a
    log.append(hasattr(s, "a"))
    try:
        s.d = 1
    except AttributeError as error:
        log.append(str(error))
    return x + s.c, log


class Node:
    """Parents are weak."""

    def __init__(self, value, parent=None):
        self.value = value
        self.parent = None if parent is None else weakref.ref(parent)
        self.children = []
        if parent is not None:
            parent.children.append(self)


@program(graphs=(1, 6), breaks=(0, 10))
def weak_references(x, n):
    root = Node(x)
    child = Node(x + 1, root)
    CUT
    return child.parent().value * 2, child.parent() is root


@program(graphs=(1, 6), breaks=(0, 10))
def weak_reference_dies_with_its_object(x, n):
    root = Node(1)
    ref = weakref.ref(root)
    y = x + 1
    alive = ref() is not None
    CUT
    del root
    return y * 2, alive, ref() is None


class Finalized:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("deleted")


@program(graphs=(0, 6), breaks=(0, 10))
def finalizers_run_when_the_object_dies(x, n):
    log = []
    thing = Finalized(log)
    y = x + 1
    log.append("before")
    del thing
    log.append("after")
    CUT
    return y * 2, log


class Generic_(typing.Generic[typing.TypeVar("T")]):
    def __init__(self, value):
        self.value = value


class Subscripted:
    def __class_getitem__(cls, item):
        return f"{cls.__name__}[{item}]"


@program()
def subscripted_classes(x, n):
    CUT
    return Generic_[int](x).value + 1, Subscripted[n], list[int], dict[str, int] is not None, isinstance([], list)


class Diamond:
    def who(self):
        return ["diamond"]


class DiamondLeft(Diamond):
    def who(self):
        return ["left", *super().who()]


class DiamondRight(Diamond):
    def who(self):
        return ["right", *super().who()]


class DiamondBottom(DiamondLeft, DiamondRight):
    def who(self):
        return ["bottom", *super().who()]


@program()
def method_resolution_order(x, n):
    bottom = DiamondBottom()
    CUT
    return x + 1, bottom.who(), [c.__name__ for c in DiamondBottom.__mro__], super(DiamondLeft, bottom).who()


class Methods:
    count = 0

    def __init__(self, x):
        self.x = x

    @classmethod
    def make(cls, x):
        Methods.count += 1
        return cls(x)

    @staticmethod
    def twice(x):
        return x * 2

    def bound(self):
        return self.x + 1


class MoreMethods(Methods):
    @classmethod
    def make(cls, x):
        return super().make(x + 1)

    @staticmethod
    def twice(x):
        return Methods.twice(x) + 1


@program(graphs=(1, 3), breaks=(0, 9), recompiles=True, watch=[(Methods, "count")])
def class_and_static_methods(x, n):
    a = MoreMethods.make(x)
    b = a.make(x)
    CUT
    return a.bound(), MoreMethods.twice(x), a.twice(x), type(b).__name__, Methods.bound(a), MoreMethods.count


@program()
def bound_methods_as_values(x, n):
    m = Methods(x)
    f = m.bound
    m.x = x * 5
    CUT
    return f(), f == m.bound, f is m.bound, f.__self__ is m, f.__name__, Methods.bound is Methods.bound


class NewOnly:
    made = 0

    def __new__(cls, value):
        if value is None:
            return "no instance"
        self = object.__new__(cls)
        self.by_new = value
        return self

    def __init__(self, value):
        self.by_init = self.by_new + 1


@program()
def new_may_return_something_else(x, n):
    one = NewOnly(n)
    CUT
    return x * one.by_init, NewOnly(None)


class ReturnsValue:
    def __init__(self):
        return 5  # noqa: PLE0101


@program()
def init_that_returns_something_is_a_type_error(x, n):
    try:
        ReturnsValue()
    except TypeError as error:
        return x + 1, str(error)


@dataclasses.dataclass(frozen=True)
class Point:
    a: int
    b: int = 0

    def moved(self, by):
        return dataclasses.replace(self, a=self.a + by)


class Sized:
    def __len__(self):
        return 3


@program()
def wrong_arguments_of_a_constructor(x, n):
    log = []
    for call in (lambda: Methods(), lambda: Methods(1, 2), lambda: Sized(1), lambda: Point(), lambda: Point(1, c=2)):
        try:
            call()
        except TypeError as error:
            log.append(str(error))
    return x + 1, log


class Copied:
    def __init__(self, x):
        self.x = x
        self.items = [1]

    def __copy__(self):
        made = Copied(self.x)
        made.copied = True
        return made

    def __deepcopy__(self, memo):
        made = Copied(self.x)
        made.items = copy.deepcopy(self.items, memo)
        return made


@program(graphs=(0, 2), breaks=(0, 4))
def copy_hooks(x, n):
    c = Copied(x)
    shallow, deep = copy.copy(c), copy.deepcopy(c)
    CUT
    return shallow.copied, deep.items == c.items, deep.items is c.items, deep.x * 2


@program(graphs=(0, 2), breaks=(0, 4))
def copy_of_plain_objects(x, n):
    m = Methods([x, 1])
    one = copy.copy(m)
    CUT
    return one.x is m.x, one is m, copy.copy(Point(1, 2)), one.x[0] * 2


@program(inputs=(Methods(tensor(3)), 2), others=[(MoreMethods(tensor(4)), 2)])
def dynamic_attribute_names(m, n):
    for i in range(n):
        setattr(m, f"field{i}", m.x * i)
    total = sum(getattr(m, f"field{i}") for i in range(n))
    CUT
    delattr(m, "field0")
    return total, hasattr(m, "field0"), getattr(m, "none", "default"), sorted(vars(m))


@program()
def objects_in_cycles(x, n):
    a, b = Methods(x), Methods(x)
    a.other, b.other = b, a
    CUT
    return x + 1, a


class Temperature:
    def __init__(self, value):
        self.log = []
        self._value = value

    @property
    def value(self):
        self.log.append("get")
        return self._value

    @value.setter
    def value(self, value):
        self.log.append("set")
        self._value = value

    @value.deleter
    def value(self):
        self.log.append("del")
        del self._value


@program()
def property_with_setter_and_deleter(x, n):
    t = Temperature(x)
    t.value = x + 1
    CUT
    y = t.value
    del t.value
    try:
        t.value  # noqa: B018
    except AttributeError:
        return y, t.log
    return None


@functools.total_ordering
class Ranked:
    def __init__(self, rank):
        self.rank = rank

    def __eq__(self, other):
        return self.rank == other.rank

    def __lt__(self, other):
        return self.rank < other.rank


@program()
def total_ordering(x, n):
    a, b = Ranked(1), Ranked(2)
    return x + 1, a < b, a <= b, a >= b, a > b, max(a, b).rank, sorted([b, a])[0].rank


class Applies:
    @functools.singledispatchmethod
    def apply(self, value):
        return "other"

    @apply.register
    def _(self, value: int):
        return "int"

    @functools.partialmethod
    def unused(self):
        pass

    def scaled(self, x, by):
        return x * by

    doubled = functools.partialmethod(scaled, by=2)


@program(graphs=(1, 4), breaks=(0, 4))
def descriptors_of_functools(x, n):
    a = Applies()
    return a.doubled(x), a.apply(5), a.apply("text")


class Module(torch.nn.Module):
    """A module with a property, a class attribute and state of its own."""

    factor = 2

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(tensor(3))
        self.steps = 0

    @property
    def doubled(self):
        return self.weight * self.factor

    def forward(self, x, n):
        self.steps += 1
        return self.doubled * x + n

    def __len__(self):
        return 3


WORDS = {1: 2}


class OfC:
    """Its special methods are functions in C, which are given no instance."""

    __call__ = max
    __getitem__ = WORDS.get
    __contains__ = {1, 2}.__contains__


def test_special_methods_that_are_functions_in_c():
    from programs import check

    def fn(x, a):
        return x + a(1, 2) + a[1], 2 in a, 3 in a

    check(fn, tensor(3), OfC(), operators=2)


def test_module_with_protocols():
    from programs import check

    check(Module(), tensor(3), 3, recompiles=True, others=[(tensor(3, seed=1), 3)])


@pytest.mark.parametrize("place, kind", program.parameters())
def test_program(place: Place, kind: str) -> None:
    run_program(place, kind)
