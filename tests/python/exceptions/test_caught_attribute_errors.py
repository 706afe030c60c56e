"""Programs that catch the errors of properties without a setter, and that read what a caught exception has."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque

import pytest
from torch.utils._ordered_set import OrderedSet

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


@checked(tensor(3))
def test_traceback_of_a_caught_exception_is_compared_with_none(x):
    error = ValueError("not raised")
    before = error.__traceback__ is None
    try:
        raise error
    except ValueError as caught:
        return x + 1, before, caught.__traceback__ is not None


@checked(tensor(3))
def test_links_of_caught_exceptions(x):
    try:
        try:
            raise ValueError(1)
        except ValueError:
            raise KeyError(2) from None
    except KeyError as error:
        links = type(error.__context__).__name__, error.__cause__ is None, error.__suppress_context__
        return x + 1, links


@checked(tensor(3), OrderedSet([3, 1, 2]))
def test_ordered_set_of_torch(x, given):
    made = OrderedSet([1, 2, 3])
    made.add(5)
    made.discard(1)
    both = made | given
    for each in both:
        x = x * each
    return x, len(both), 5 in both, list(made), made


@pytest.mark.parametrize("cls", [deque, defaultdict, OrderedDict, int, Account], ids=lambda cls: cls.__name__)
def test_class_that_lacks_an_attribute(cls):
    def fn(x):
        try:
            return x, cls.nothing
        except AttributeError as error:
            return x + 1, str(error)

    check(fn, tensor(3), graphs=1)
