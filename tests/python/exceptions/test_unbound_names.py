"""Names that are not bound: variables, cells and globals that are deleted, or that one branch alone assigns."""

from __future__ import annotations

import warnings

import pytest

import dynamo_lite as dl
from programs import built, check, checked, recompiling, tensor, watching


@checked(tensor(2), True, operators=2, others=[(tensor(2), False)])
def test_variable_that_one_branch_assigns(x, flag):
    if flag:
        y = x + 1
    return y * 2


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


COUNT = 0


@checked(tensor(2))
@watching("COUNT")
@recompiling
def test_delete_a_global_twice(x):
    global COUNT
    del COUNT
    return x + 1


LIMIT = 0


@checked(tensor(2), False, others=[(tensor(2), True), (tensor(2), False)], all_graphs=3)
@watching("LIMIT")
def test_existence_of_a_global_is_guarded(x, remove):
    global LIMIT
    try:
        LIMIT  # noqa: B018
    except NameError:
        return x - 1
    if remove:
        del LIMIT
    return x + 1


@checked(tensor(2), False, others=[(tensor(2), True), (tensor(2), False)], all_graphs=3)
@built
def test_existence_of_a_free_variable_is_guarded():
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
        check(recompiling(fn), tensor(2), False, graphs=None, others=others)
