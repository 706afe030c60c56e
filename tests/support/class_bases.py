# ruff: noqa: F401
"""Classes that the programs of `class_programs` derive theirs from, and the modules that those use.

Each program executes this module anew."""

from __future__ import annotations

import abc
import bisect
import collections
import collections.abc
import copy
import dataclasses
import enum
import functools
import heapq
import math
import operator
import pickle
import types
import typing
from collections import Counter, OrderedDict, defaultdict, deque

import torch

LOG: list[str] = []
"""The methods that were called, in order."""


class Point(typing.NamedTuple):
    x: int
    y: int


class Reflecting:
    """An operand of another type that takes part in operators."""

    def __radd__(self, other):
        LOG.append("radd of the other")
        return "added"

    def __rmul__(self, other):
        LOG.append("rmul of the other")
        return "multiplied"

    def __eq__(self, other):
        LOG.append("eq of the other")
        return True

    __hash__ = None


class Mixin:
    factor = 3

    def scaled(self):
        LOG.append("scaled")
        return [e * self.factor for e in self]

    @property
    def total(self):
        LOG.append("total")
        return sum(self)

    def __add__(self, other):
        LOG.append("add of the mixin")
        return ("added", len(self), len(other))

    @classmethod
    def of(cls, *args):
        LOG.append("of")
        return cls(*args)

    @staticmethod
    def named():
        return "named"

    def __call__(self, k):
        LOG.append("call")
        return k, len(self)

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, *args):
        LOG.append("exit")


class Tagged:
    def __init__(self, *args, **kwargs):
        LOG.append("init of Tagged")
        super().__init__(*args, **kwargs)
        self.tag = "tag"

    def __repr__(self):
        return f"<{self.tag} {super().__repr__()}>"


T = typing.TypeVar("T")


@typing.runtime_checkable
class HasLength(typing.Protocol):
    def __len__(self) -> int: ...


@typing.runtime_checkable
class Named(typing.Protocol):
    name: str

    def named(self):
        return "named"


class Meta(type):
    def __call__(cls, *args, **kwargs):
        LOG.append("call of the metaclass")
        made = super().__call__(*args, **kwargs)
        made.made_by = "meta"
        return made

    def __instancecheck__(cls, other):
        LOG.append("instancecheck")
        return type.__instancecheck__(cls, other) or other == 5

    def __subclasscheck__(cls, other):
        LOG.append("subclasscheck")
        return super().__subclasscheck__(other)

    def __getitem__(cls, key):
        LOG.append("getitem of the metaclass")
        return key

    def __iter__(cls):
        return iter(("i", "j"))

    def __len__(cls):
        return 2

    def __contains__(cls, item):
        return item == "i"

    def __getattr__(cls, name):
        LOG.append("getattr of the metaclass")
        if name.startswith("_"):
            raise AttributeError(name)
        return name * 2

    @property
    def kind(cls):
        return cls.__name__ + "!"

    def __or__(cls, other):
        return "or"

    def __repr__(cls):
        return "<X>"


class Field:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        LOG.append("get " + self.name)
        return obj[self.name]

    def __set__(self, obj, value):
        LOG.append("set " + self.name)
        obj[self.name] = value

    def __delete__(self, obj):
        LOG.append("delete " + self.name)
        del obj[self.name]


class Registered(dict):
    known = []

    def __init_subclass__(cls, tag="none", **kwargs):
        super().__init_subclass__(**kwargs)
        cls.tag = tag
        Registered.known.append(cls.__name__)

    def __class_getitem__(cls, item):
        return ("item", cls.__name__, item)

    def __missing__(self, key):
        LOG.append("missing")
        if key == "zz":
            raise KeyError(key)
        self[key] = value = len(self)
        return value


class Dot(dict):
    def __getattr__(self, name):
        LOG.append("getattr " + name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        LOG.append("setattr " + name)
        self[name] = value

    def __delattr__(self, name):
        LOG.append("delattr " + name)
        del self[name]


class Get(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Own(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Easy(dict):
    def __init__(self, d=None, **kwargs):
        d = {} if d is None else dict(d)
        d.update(**kwargs)
        for k, v in d.items():
            setattr(self, k, v)
        for k in self.__class__.__dict__.keys():
            if not (k.startswith("__") and k.endswith("__")) and k not in ("update", "pop"):
                setattr(self, k, getattr(self, k))

    def __setattr__(self, name, value):
        if isinstance(value, (list, tuple)):
            value = type(value)(self.__class__(x) if isinstance(x, dict) else x for x in value)
        elif isinstance(value, dict) and not isinstance(value, Easy):
            value = Easy(value)
        super().__setattr__(name, value)
        super().__setitem__(name, value)

    __setitem__ = __setattr__

    def update(self, e=None, **f):
        d = e or dict()
        d.update(f)
        for k in d:
            setattr(self, k, d[k])

    def pop(self, k, *args):
        if hasattr(self, k):
            delattr(self, k)
        return super().pop(k, *args)


class Add(dict):
    def __init__(self, *args, **kwargs):
        object.__setattr__(self, "__parent", kwargs.pop("__parent", None))
        object.__setattr__(self, "__key", kwargs.pop("__key", None))
        for arg in args:
            if isinstance(arg, dict):
                for key, value in arg.items():
                    self[key] = self._hook(value)
            else:
                for key, value in iter(arg):
                    self[key] = self._hook(value)
        for key, value in kwargs.items():
            self[key] = self._hook(value)

    def __setattr__(self, name, value):
        if hasattr(self.__class__, name):
            raise AttributeError(f"'Dict' object attribute '{name}' is read-only")
        self[name] = value

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        p, key = self.__dict__.get("__parent"), self.__dict__.get("__key")
        if p is not None:
            p[key] = self
            object.__delattr__(self, "__parent")
            object.__delattr__(self, "__key")

    @classmethod
    def _hook(cls, item):
        if isinstance(item, dict):
            return cls(item)
        if isinstance(item, (list, tuple)):
            return type(item)(cls._hook(e) for e in item)
        return item

    def __getattr__(self, item):
        return self.__getitem__(item)

    def __missing__(self, name):
        return self.__class__(__parent=self, __key=name)

    def __delattr__(self, name):
        del self[name]


class Output(OrderedDict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for k, v in list(self.items()):
            object.__setattr__(self, k, v)

    def __getitem__(self, k):
        if isinstance(k, str):
            return {k: v for k, v in self.items()}[k]
        return self.to_tuple()[k]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __delitem__(self, *args, **kwargs):
        raise Exception("no deletion")

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


class Config:
    def __init__(self, **fields):
        object.__setattr__(self, "_fields", fields)

    def __getattr__(self, name):
        LOG.append("getattr " + name)
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._fields[name]
        except KeyError as error:
            raise AttributeError(str(error)) from error

    def __setattr__(self, name, value):
        self._fields[name] = value

    __setitem__ = __setattr__

    def __getitem__(self, name):
        return self._fields[name]

    def __iter__(self):
        return iter(self._fields)

    def __len__(self):
        return len(self._fields)

    def __contains__(self, name):
        return name in self._fields

    def keys(self):
        return self._fields.keys()

    def items(self):
        return self._fields.items()

    def __eq__(self, other):
        return type(other) is type(self) and self._fields == other._fields

    __hash__ = None


@functools.total_ordering
class Ranked:
    def __init__(self, rank):
        self.rank = rank

    def __eq__(self, other):
        LOG.append("eq")
        return isinstance(other, Ranked) and self.rank == other.rank

    def __lt__(self, other):
        LOG.append("lt")
        if not isinstance(other, Ranked):
            return NotImplemented
        return self.rank < other.rank

    def __hash__(self):
        return hash(self.rank)


class Store(abc.ABC):
    @property
    @abc.abstractmethod
    def size(self): ...
    def doubled(self):
        return self.size * 2


class Stored(collections.abc.MutableMapping):
    def __init__(self, **items):
        self._store = dict(items)

    def __getitem__(self, key):
        LOG.append("getitem")
        return self._store[key]

    def __setitem__(self, key, value):
        LOG.append("setitem")
        self._store[key] = value

    def __delitem__(self, key):
        LOG.append("delitem")
        del self._store[key]

    def __iter__(self):
        LOG.append("iter")
        return iter(self._store)

    def __len__(self):
        return len(self._store)


class Items(collections.abc.MutableSequence):
    def __init__(self, *items):
        self._items = list(items)

    def __getitem__(self, at):
        LOG.append("getitem")
        return self._items[at]

    def __setitem__(self, at, value):
        self._items[at] = value

    def __delitem__(self, at):
        del self._items[at]

    def insert(self, at, value):
        LOG.append("insert")
        self._items.insert(at, value)

    def __len__(self):
        return len(self._items)


class Bag(collections.abc.MutableSet):
    def __init__(self, items=()):
        self._items = list(items)

    def __contains__(self, item):
        LOG.append("contains")
        return item in self._items

    def __iter__(self):
        return iter(self._items)

    def __len__(self):
        return len(self._items)

    def add(self, item):
        self._items.append(item)

    def discard(self, item):
        self._items.remove(item)


class Pair(typing.NamedTuple, typing.Generic[T]):
    x: T
    y: int = 4


class BySecond(tuple):
    def __lt__(self, other):
        LOG.append("lt")
        return self[1] < other[1]


class Formatted(str):
    def __format__(self, spec):
        LOG.append(spec)
        return "<" + format(str(self), spec) + ">"


class Measured(int):
    unit = "m"

    def __new__(cls, n, unit="km"):
        made = super().__new__(cls, n)
        made.unit = unit
        return made

    def __format__(self, spec):
        return int.__format__(self, spec) + self.unit


class Spelled(float):
    def __str__(self):
        return "float!"

    def __round__(self, n=None):
        return "rounded"


class Coded(enum.Enum):
    def __init__(self, code, label):
        self.code = code
        self.label = label

    def shout(self):
        LOG.append("shout")
        return self.label + "!"

    @classmethod
    def first(cls):
        return next(iter(cls))

    @property
    def upper(self):
        return self.label.upper()

    @classmethod
    def of(cls, label):
        return [each for each in cls if each.label == label][0]

    def __call__(self, n):
        return self.code + n

    def __lt__(self, other):
        return self.code < other.code

    @classmethod
    def _missing_(cls, value):
        return cls.B if value == 7 else None


class SizedText(str, enum.Enum):  # noqa: UP042
    def __new__(cls, text, size):
        made = str.__new__(cls, text)
        made._value_ = text
        made.size = size
        return made
