"""Errors of attributes that are missing, and of properties that lack an accessor: their texts, names and objects."""

from __future__ import annotations

import operator
from collections import OrderedDict, defaultdict, deque

import pytest
import torch

from programs import check, checked, tensor


class Account:
    hidden = property(None, None)

    def __init__(self, total=3):
        self._total = total

    @property
    def total(self):
        return self._total

    class Inner:
        rate = property(lambda self: 2)


Account.renamed = property(lambda self: 1)  # it doesn't know its name, so the error's text has none


def set_total(account):
    account.total = 4


def set_inner(account):
    Account.Inner().rate = 5


def set_renamed(account):
    account.renamed = 2


def delete_total(account):
    del account.total


def get_hidden(account):
    return account.hidden


FAILING = [set_total, set_inner, set_renamed, delete_total, get_hidden]


@pytest.mark.parametrize("fails", FAILING, ids=[each.__name__ for each in FAILING])
def test_property_that_lacks_an_accessor(fails):
    def fn(x, account):
        try:
            fails(account)
        except AttributeError as error:
            return x + 1, str(error)
        return x

    check(fn, tensor(3), Account())
    check(lambda x: fn(x, Account(5)), tensor(3))


@pytest.mark.parametrize("cls", [deque, defaultdict, OrderedDict, int, Account], ids=lambda cls: cls.__name__)
def test_class_that_lacks_an_attribute(cls):
    def fn(x):
        try:
            return x, cls.nothing
        except AttributeError as error:
            return x + 1, str(error)

    check(fn, tensor(3), graphs=1)


class Thing:
    pass


class Slotted:
    __slots__ = ("k",)


def filled(cls):
    made = cls()
    made.k = 1
    return made


@checked(tensor(2), filled(Thing), others=[(tensor(2), Thing())])
def test_delete_an_attribute_missing_in_a_later_call(x, thing):
    y = x * 2
    del thing.k
    return y


@pytest.mark.parametrize("cls", [Thing, Slotted])
def test_caught_error_of_a_missing_attribute(cls):
    def fn(x, thing):
        try:
            thing.k
        except AttributeError:
            return x - 1
        return x + 1

    check(fn, tensor(2), filled(cls), others=[(tensor(2), cls()), (tensor(2), filled(cls))], all_graphs=2)


class Raising:
    @property
    def own(self):
        raise AttributeError("own")

    @property
    def other(self):
        return self.missing

    @property
    def callee(self):
        raise AttributeError("callee")

    def above(self):
        return super().nothing


THERE = Raising()


class Hooked:
    def __getattr__(self, name):
        raise AttributeError(name)


# Not a property's own error: what that is told depends on how often the access ran, as CPython specialises it.
MISSING_ATTRIBUTES = {
    "of a builtin class": lambda: int.nothing,
    "of a class": lambda: Raising.nothing,
    "unbound slot": lambda: Slotted().k,
    "of an object": lambda: Raising().nothing,
    "of an object that was there": lambda: THERE.nothing,
    "property of property": lambda: Raising().other,
    "property that is called": lambda: Raising().callee(),
    "method": lambda: Raising().nothing(),
    "super": lambda: Raising().above(),
    "hook": lambda: Hooked().foo,
    "hook that is called": lambda: Hooked().foo(),
    "getattr": lambda: getattr(Raising(), "nothing"),
    "attrgetter": lambda: operator.attrgetter("own.nothing")(Raising()),
    "setting": lambda: setattr(Slotted(), "b", 1),
    "setting of an object": lambda: setattr(object(), "b", 1),
    "deleting": lambda: delattr(Raising(), "b"),
    "deleting a slot": lambda: delattr(Slotted(), "k"),
    "module": lambda: operator.nothing,
    "number": lambda: (1).nothing,
    "text": lambda: "a".nothing,
    "None": lambda: None.nothing,
    "list": lambda: [].nothing,
    "range": lambda: range(3).nothing,
    "tensor": lambda: torch.ones(1).nothing,
    "exception": lambda: ValueError().nothing,
    "global": lambda: nothing_of_this_name,  # noqa: F821
}


@pytest.mark.parametrize("name", MISSING_ATTRIBUTES)
def test_error_names_the_missing_attribute(name):
    access = MISSING_ATTRIBUTES[name]

    def fn(x):
        try:
            access()
        except (AttributeError, NameError) as error:
            return x + 1, str(error)

    def named(x):
        try:
            access()
        except (AttributeError, NameError) as error:
            return x + 1, str(error), error.name, type(getattr(error, "obj", None))

    check(fn, tensor(2))
    check(named, tensor(2), graphs=(1, 2), breaks=(1, 3))
