"""The order of what is in ``__dict__`` of classes that are made inside: while tracing, and where they leave."""

from __future__ import annotations

import abc
import functools

import pytest
import torch

import dynamo_lite as dl


def plain(x):
    class Made:
        """With a text."""

        a = 1

        def method(self):
            return 3

    return Made, list(Made.__dict__)


def with_equality_and_a_late_name(x):
    class Made:
        a = 1

        def __eq__(self, other):
            return True

    Made.late = x
    return Made, list(vars(Made))


def with_slots(x):
    class Made:
        __slots__ = ("one", "other")
        a = 1

        def method(self):
            return 3

    return Made, list(vars(Made))


def with_a_slot_for_weak_references(x):
    class Base:
        __slots__ = ("__weakref__", "one")

        def __hash__(self):
            return 1

        def __eq__(self, other):
            return True

    class Made(Base):
        """With a text."""

        __slots__ = ("__dict__",)
        a = 1

    return Made, list(vars(Base)), list(vars(Made))


def by_a_call_of_type(x):
    made = type("Made", (), {"a": 1, "__doc__": "a text", "b": 2})
    return made, list(made.__dict__.items())[0], list(made.__dict__)


def abstract(x):
    class Made(abc.ABC):
        a = 1

        @abc.abstractmethod
        def needed(self):
            """What others have to write."""

        @property
        def prop(self):
            return 1

    Made.late = 2
    return Made, list(Made.__dict__)


def with_annotations_and_what_type_wraps(x):
    class Base:
        a: int = 1
        b: str

        def __init_subclass__(cls, **kwargs):
            cls.tag = 1

        def __class_getitem__(cls, item):
            return item

        def __new__(cls):
            return object.__new__(cls)

        @functools.cached_property
        def kept(self):
            return 3

    class Made(Base):
        c = 2

        @staticmethod
        def static():
            return __class__  # noqa: F821

    return Made, list(vars(Base)), list(vars(Made)), Made().kept


def deleted_and_set_again(x):
    class Made:
        a = 1
        b = 2
        c = 3

    del Made.b
    Made.b = 4
    return Made, list(vars(Made))


class Meta(type):
    @classmethod
    def __prepare__(cls, name, bases):
        return {"first": 0}

    def __new__(cls, name, bases, namespace):
        made = super().__new__(cls, name, bases, {**namespace, "extra": 1})
        made.after = 2
        return made


def of_a_metaclass(x):
    class Made(metaclass=Meta):
        a = 1

        def method(self):
            return super().__repr__()

    return Made, list(vars(Made))


def an_error(x):
    class Base(Exception):
        def __str__(self):
            return "x"

    class Made(Base):
        __slots__ = ()

    return Made, list(vars(Base)), list(vars(Made))


PROGRAMS = [
    plain,
    with_equality_and_a_late_name,
    with_slots,
    with_a_slot_for_weak_references,
    by_a_call_of_type,
    abstract,
    with_annotations_and_what_type_wraps,
    deleted_and_set_again,
    of_a_metaclass,
    an_error,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_names_come_in_the_order_of_cpython(program):
    def fn(x):
        return x + 1, *program(x)

    x = torch.arange(3.0)
    made, *found = fn(x)[1:]
    explained = dl.explain(fn)(x)
    compiled, *seen = explained.result[1:]
    assert explained.graph_count == 1
    assert explained.break_count == 0
    assert seen == found
    assert list(vars(compiled)) == list(vars(made))
