"""Dataclasses, enumerations and flags, named tuples."""

from __future__ import annotations

import dataclasses
import enum
import typing

import torch

import dynamo_lite as dl
from collector import Programs
from outcomes import outcomes
from programs import tensor

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


@dataclasses.dataclass(frozen=True)
class Point:
    a: int
    b: int = 0

    def moved(self, by):
        return dataclasses.replace(self, a=self.a + by)


@program()
def frozen_dataclass_as_a_key(x, n):
    table = {Point(1, 2): x}
    CUT
    return table[Point(1, 2)] * 2, Point(2, 1) in table, Point(1, 2) == Point(1, 2)


@program()
def frozen_dataclass_raises_on_assignment(x, n):
    p = Point(n)
    try:
        p.a = 5
    except dataclasses.FrozenInstanceError as error:
        CUT
        return x * p.a, str(error), p.moved(2).a


@dataclasses.dataclass
class Config:
    width: int
    names: list = dataclasses.field(default_factory=list)
    scale: float = dataclasses.field(default=2.0, repr=False, compare=False)
    total: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = self.width * 2


@program()
def dataclass_with_factories_and_post_init(x, n):
    one, two = Config(n), Config(n, ["a"])
    one.names.append("b")
    CUT
    return x * one.total, one.names, two.names, one == two, one.scale


@program(graphs=None, breaks=None, cut=False)  # after a break the fields are guarded by identity
def dataclass_text_and_fields(x, n):
    config = Config(n, ["a"])
    return x + 1, repr(config), [field.name for field in dataclasses.fields(config)], dataclasses.asdict(config)


@dataclasses.dataclass(kw_only=True)
class Named:
    value: typing.Any
    name: str = "none"


@program()
def dataclass_astuple_and_replace(x, n):
    config = Named(value=x, name="a")
    other = dataclasses.replace(config, name="b")
    CUT
    return other.value + 1, other.name, config.name, dataclasses.is_dataclass(config), dataclasses.astuple(Point(1, 2))


@dataclasses.dataclass(order=True, slots=True)
class Version:
    major: int
    minor: int = 0


@program()
def dataclass_with_slots_and_order(x, n):
    versions = sorted([Version(2), Version(1, 5), Version(1)])
    CUT
    return x + 1, [(v.major, v.minor) for v in versions], Version(1) < Version(1, 1), max(versions).major


@dataclasses.dataclass
class Child(Config):
    extra: dataclasses.InitVar[int] = 5
    kind: typing.ClassVar[str] = "child"

    def __post_init__(self, extra):
        super().__post_init__()
        self.doubled = extra * 2


@program()
def dataclass_inheritance_with_initvar_and_classvar(x, n):
    child = Child(n, extra=7)
    CUT
    return x * child.doubled, child.total, child.kind, [field.name for field in dataclasses.fields(Child)]


@program()
def dataclass_holding_tensors_is_changed(x, n):
    config = Named(value=[x])
    config.value.append(x + 1)
    config.name += "!"
    CUT
    return config


@program(Config(3, ["a"]), tensor(3), others=[(Config(4), tensor(5, seed=1))])
def dataclass_argument_is_changed_for_the_caller(config, x):
    config.names.append(x + config.total)
    CUT
    config.total += 1
    return x * config.scale


class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    @property
    def bright(self):
        return self is Colour.RED

    @classmethod
    def default(cls):
        return cls.GREEN

    def __str__(self):
        return self.name.lower()


@program()
def enum_members_by_value_name_and_alias(x, n):
    CUT
    return x * Colour(2).value, Colour["RED"] is Colour.CRIMSON, Colour.GREEN.name, list(Colour), len(Colour)


@program()
def enum_methods_properties_and_text(x, n):
    colour = Colour.default()
    CUT
    return x + colour.value, colour.bright, str(colour), repr(Colour.RED), f"{Colour.RED}", Colour.RED in Colour


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 10


@program()
def enum_as_key_and_in_match(x, n):
    table = {Colour.RED: x, Colour.GREEN: x * 2}
    match Colour.default():
        case Colour.RED:
            y = x
        case Colour.GREEN:
            y = table[Colour.GREEN]
    CUT
    return y, Colour.RED == 1, Colour.RED != Colour.GREEN, Size.LARGE == 10


class Mode(str, enum.Enum):  # noqa: UP042
    TRAIN = "train"
    EVAL = "eval"


@program()
def int_and_str_enums_are_numbers_and_strings(x, n):
    CUT
    return (
        x * Size.LARGE,
        Size.SMALL + n,
        Size.SMALL < Size.LARGE,
        Mode.TRAIN == "train",
        Mode("eval"),
        Mode.EVAL.upper(),
    )


class Level(enum.IntFlag):
    A = 1
    B = 2


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


@program()
def flags_are_combined(x, n):
    both = Rights.READ | Rights.WRITE
    CUT
    return (
        x * both.value,
        Rights.READ in both,
        both & Rights.READ,
        both is Rights.BOTH,
        ~Rights.READ,
        bool(Rights(0)),
        Level.A | Level.B,
    )


def test_flags_with_bits_that_have_no_name():
    """Early releases of CPython 3.11 create a new object for each such flag."""

    def fn(x):
        return x + 1, Level.A | 4

    compiled, x = dl.compile(fn, backend="eager"), torch.ones(2)
    is_kept = fn(x)[1] is fn(x)[1]
    assert compiled(x)[1] == fn(x)[1] and (compiled(x)[1] is compiled(x)[1]) is is_kept
    assert is_kept or dl.counters.graph_breaks > 0


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


@program(tensor(3), Access.READ, others=[(tensor(3), Access.READ | Access.WRITE)])
def flags_that_are_integers_decide(x, access):
    if access & Access.WRITE:
        x = x * 2
    return x + 1, bool(access), not access & Access.READ


@program()
def wrong_enum_values_raise(x, n):
    return x + 1, outcomes(lambda: Colour(9), lambda: Colour["NONE"], lambda: Colour.NONE)


@program(tensor(3), Mode.TRAIN, others=[(tensor(3), Mode.EVAL), (tensor(3), Mode.TRAIN)])
def enum_argument_chooses(x, mode):
    if mode is Mode.TRAIN:
        return x + 1
    return x - 1


test_program = program.test()
