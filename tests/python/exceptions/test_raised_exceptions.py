"""Programs about exceptions, handlers and unbound names."""

from __future__ import annotations

import logging
import operator
import sys
import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import dynamo_lite as dl
from managers import Manager
from programs import check, checked, tensor


def test_no_exception_is_handled_after_one_left_a_with():
    def fn(x, log):
        y = x * 2
        with Manager(log):
            y += x[:, :1].t()
        return y

    check(fn, tensor(2, 3), [], graphs=None)
    assert sys.exc_info()[0] is None


@pytest.mark.parametrize("depth", [1, 2])
def test_no_exception_is_handled_after_a_handler_raised(depth):
    def fn(x, log, depth):
        y = x * 2
        try:
            try:
                dl.graph_break()
                raise ValueError(1)
            finally:
                log.append(y.sum())
                dl.graph_break()
        except ValueError as error:
            if depth > 1:
                raise KeyError(2) from error
            dl.graph_break()
            raise

    check(fn, tensor(2, 3), [], depth, graphs=None)
    assert sys.exc_info()[0] is None


@checked(tensor(2), [1], graphs=None)
def test_argument_that_was_deleted_stays_unbound(x, other):
    y = x + 1
    del other
    dl.graph_break()
    return y, other  # noqa: F821


@checked(tensor(2), [1], graphs=None)
def test_argument_that_was_deleted_is_unbound_where_it_breaks(x, other):
    try:
        del other
    finally:
        x = [(x, k) for k in other]  # noqa: F821
    return x


@checked(tensor(2), [], graphs=None)
def test_global_that_was_deleted_in_a_handler(x, log):
    try:
        raise KeyError("k")
    except KeyError as error:
        log.append(error.args)
    log.append(x.sum())
    return error  # noqa: F821


@checked(tensor(2), {"k": 1}, others=[(tensor(2), {})])
def test_delete_an_item_missing_in_a_later_call(x, table):
    y = x * 2
    del table["k"]
    return y


COUNT = 0


@checked(tensor(2), watch=["COUNT"], recompiles=True)
def test_delete_a_global_twice(x):
    global COUNT
    del COUNT
    return x + 1


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


LIMIT = 0


@checked(tensor(2), False, others=[(tensor(2), True), (tensor(2), False)], watch=["LIMIT"], all_graphs=3)
def test_global_is_looked_up_to_see_if_it_is_there(x, remove):
    global LIMIT
    try:
        LIMIT  # noqa: B018
    except NameError:
        return x - 1
    if remove:
        del LIMIT
    return x + 1


@checked(tensor(2), False, others=[(tensor(2), True), (tensor(2), False)], build=True, all_graphs=3)
def test_closure_is_looked_up_to_see_if_it_is_there():
    value = 1

    def fn(x, remove):
        nonlocal value
        try:
            value  # noqa: B018
        except NameError:
            return x - 1
        if remove:
            del value  # noqa: F821
        return x + 1

    return fn


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("caught", [False, True])
def test_empty_cell_of_the_function_itself(late, caught):
    def fn(x, items, late, caught):
        if late:
            dl.graph_break()
        items.append(x + 1)
        try:
            items.append(value)  # noqa: F821
        except UnboundLocalError as error:
            if not caught:
                raise
            items.append(str(error))
        value = x * 2
        return lambda: value

    check(fn, tensor(2), [], late, caught, graphs=None)


@checked(tensor(2), [], graphs=None)
def test_cell_of_the_function_itself_deleted_twice(x, items):
    value = x * 2
    call = lambda: value  # noqa: E731, F821
    del value
    dl.graph_break()
    try:
        del value  # noqa: F821
    except UnboundLocalError as error:
        items.append(error.args)
    return x, call


@pytest.mark.parametrize("make", [list, lambda: (each for each in ())])
@pytest.mark.parametrize("how", [next, lambda items: items.__next__()])
def test_end_of_iterator_while_an_exception_is_handled(make, how):
    def fn(x, make, how, seen):
        items = iter(make())
        try:
            raise KeyError("outer")
        except KeyError:
            try:
                how(items)
            except StopIteration as error:
                seen.append(type(error.__context__))
        return x + 1

    check(fn, tensor(2), make, how, [])


def test_error_of_a_failing_operator_mentions_no_fake_tensors():
    def fn(x):
        try:
            return x @ torch.ones(7, 7)
        except RuntimeError as error:
            return x + 1, str(error)

    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger(FakeTensorMode.__module__)
    level = logger.level
    logger.setLevel(logging.ERROR)  # programs made by a grammar, which may fail, silence it
    logger.addHandler(handler)
    try:
        check(fn, tensor(2, 3), graphs=None, breaks=None)
        assert not records
        with FakeTensorMode(), pytest.raises(RuntimeError):
            torch.ones(2, 3) @ torch.ones(7, 7)
        assert len(records) == 1
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


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
def test_error_names_the_missing_attribute_or_key(name):
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


# -- variables of inner functions that are not bound -------------------------------------------------------------------


def _added_in_the_end(x, bound):
    if bound:
        value = 1

    def inner():
        return value

    for turn in range(3):
        dl.graph_break()
        if turn == 2:
            x = x + value
    return x + inner()


def _caught(x, bound):
    if bound:
        value = 1

    def inner():
        return value

    try:
        for turn in range(3):
            dl.graph_break()
            if turn == 2:
                x = x + [value, inner()][0]
    except NameError as error:
        return x, type(error), str(error), error.name, error.__context__
    return x


def _deleted(x, bound):
    value = 1

    def inner():
        return value

    try:
        for turn in range(3):
            dl.graph_break()
            if turn == 2 - bound:
                del value
    finally:
        x = x + 1
    return x


@pytest.mark.parametrize("fn", [_added_in_the_end, _caught, _deleted])
def test_eager_frames_raise_unbound_local_error_with_the_name(fn):
    """Past the limit the rest of a frame is run by CPython, to which its cells are free variables."""
    with dl.config.patch(recompile_limit=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        others = [(tensor(2), True), (tensor(3), False), (tensor(4), True)]
        check(fn, tensor(2), False, graphs=None, recompiles=True, others=others)
