"""Descriptors and attribute hooks, slots, methods, construction."""

from __future__ import annotations

import dataclasses

from collector import Programs
from outcomes import outcome, outcomes
from programs import recompiling, tensor, watching

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
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


class Stored:
    """A data descriptor that isn't called for reads, because the instance's own value comes first."""

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


class Watched:
    """Handles every attribute access in Python."""

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
    log = [outcome(getattr, s, name) for name in ("b", "d")]
    CUT
    del s.a
    log.append(hasattr(s, "a"))
    try:
        s.d = 1
    except AttributeError as error:
        log.append(str(error))
    return x + s.c, log


class SlottedAndWatched(Slotted):
    __slots__ = ()
    shared = 1

    def __setattr__(self, name, value):
        super().__setattr__(name, value)


@program()
def slots_and_what_the_class_has(x, n):
    log = []
    for kind in (Slotted, SlottedAndWatched):
        s = kind(x)
        CUT
        log.append(outcome(setattr, s, "unknown", 1))
        log.append(outcome(setattr, s, "__init__", 1))
        log += [outcome(delattr, s, name) for name in ("b", "shared", "__init__", "unknown")]
    return x + n, log


class Subscripted:
    def __class_getitem__(cls, item):
        return f"{cls.__name__}[{item}]"


@program()
def subscripted_classes(x, n):
    CUT
    return x + 1, Subscripted[n], list[int], dict[str, int] is not None, isinstance([], list)


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


@program(graphs=(1, 3), breaks=(0, 9))
@recompiling
@watching((Methods, "count"))
def class_and_static_methods(x, n):
    a = MoreMethods.make(x)
    b = a.make(x)
    CUT
    return a.bound(), MoreMethods.twice(x), a.twice(x), type(b).__name__, Methods.bound(a), MoreMethods.count


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


@dataclasses.dataclass(frozen=True)
class Point:
    a: int
    b: int = 0


class Sized:
    def __len__(self):
        return 3


@program(graphs=(1, 2), breaks=(1, 4))
def wrong_arguments_of_a_constructor(x, n):
    wrong = outcomes(lambda: Methods(), lambda: Methods(1, 2), lambda: Sized(1), lambda: Point(), lambda: Point(1, c=2))
    return x + 1, wrong


@program(Methods(tensor(3)), 2, others=[(MoreMethods(tensor(4)), 2)])
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


WORDS = {1: 2}


class OfC:
    """A class whose special methods are C functions, which don't receive the instance."""

    __call__ = max
    __getitem__ = WORDS.get
    __contains__ = {1, 2}.__contains__


def test_special_methods_that_are_functions_in_c():
    from programs import check

    def fn(x, a):
        return x + a(1, 2) + a[1], 2 in a, 3 in a

    check(fn, tensor(3), OfC(), operators=2)


test_program = program.test()
