"""Exceptions that are raised and caught during tracing, and outlive their handlers."""

from __future__ import annotations

import contextlib
import traceback

import torch

import dynamo_lite as dl
from programs import built, check, checked, tensor


def lines(error):
    return [(each.name, each.lineno) for each in traceback.extract_tb(error.__traceback__)]


def raises(x):
    raise ValueError(f"size {x.shape[0]}")


class Holder:
    error = None


@checked(tensor(2), [], graphs=None)
def test_caught_exception_is_stored(x, kept):
    y = x + 1
    try:
        raises(y)
    except ValueError as error:
        kept.append(error)
    z = y * 2
    return z, lines(kept[0])[-2:]


def test_an_exception_that_is_returned():
    def catches(x):
        try:
            raises(x)
        except ValueError as error:
            return error

    def fn(x):
        return catches(x + 1), x * 2

    def program(x):
        error, y = fn(x)
        return y, lines(error)[-2:], str(error)

    check(program, tensor(2), graphs=None)


@checked(tensor(2), [], graphs=None)
def test_cause_of_an_exception_is_stored(x, kept):
    try:
        try:
            raises(x + 1)
        except ValueError as error:
            raise KeyError("k") from error
    except KeyError as error:
        kept.append(error)
    return x * 2, [len(lines(each)) > 0 for each in (kept[0], kept[0].__cause__)]


@checked(tensor(2), [])
def test_text_of_a_caught_exception_needs_no_break(x, log):
    try:
        raises(x + 1)
    except ValueError as error:
        log.append(str(error))
        log.append(error.args)
    return x * 2


def test_deleted_attribute_is_set_again_at_the_end():
    def fn(x, thing):
        thing.a = x + 1
        del thing.error
        thing.c = 2
        thing.error = 5
        return x * 2, list(vars(thing)), dict(vars(thing))

    thing = Holder()
    thing.error = 1
    check(fn, tensor(2), thing)


def test_tracebacks_of_pre_existing_exceptions():
    def inner(x, error):
        y = x * 2
        if error is not None:
            raise error
        return y

    def fn(x, error):
        found = []
        try:
            y = x + 1
            raise error
        except ValueError as caught:
            found.append(lines(caught))
        try:
            y = inner(y, error)
        except ValueError as caught:
            found.append(lines(caught))
            try:
                raise caught
            except ValueError:
                found.append(lines(error))
        return y, found, len(lines(error))

    def program():
        error = ValueError("found")
        return lambda x: fn(x, error)

    check(built(program), tensor(3), graphs=None, breaks=None)


def test_pre_existing_exception_collects_a_traceback_at_every_raise():
    kept = ValueError("kept")

    def raise_it():
        raise kept

    def twice(x):
        y = x + 1
        try:
            raise kept
        except ValueError:
            y = y + 1
        try:
            raise kept
        except ValueError:
            y = y * 2
        return y

    def below(x):
        y = x + 1
        try:
            raise_it()
        except ValueError:
            y = y * 2
        return y

    def again(x):
        try:
            try:
                raise kept
            finally:
                x = x + 1
        except ValueError as error:
            with contextlib.suppress(ValueError):
                raise error
        return x * 2

    def as_a_cause(x):
        try:
            raise KeyError(1) from kept
        except KeyError:
            return x * 2

    for program in (twice, below, again, as_a_cause):
        seen = []
        for call in (program, dl.compile(program, backend="eager")):
            for _ in range(2):
                kept.__traceback__ = kept.__context__ = None
                seen.append((call(torch.ones(2)).tolist(), lines(kept)))
        assert seen[:2] == seen[2:], program


def test_exception_live_across_a_break_is_raised_again():
    def fn(x):
        try:
            raise ValueError("a")
        except ValueError as error:
            y = x + 1
            dl.graph_break()
            try:
                raise error
            except ValueError as again:
                return y * 2, again

    (_, one), (_, other) = fn(torch.ones(2)), dl.compile(fn, backend="eager")(torch.ones(2))
    assert lines(one) == lines(other)


@checked(tensor(3))
def test_traceback_of_a_caught_exception_is_compared_with_none(x):
    error = ValueError("not raised")
    before = error.__traceback__ is None
    try:
        raise error
    except ValueError as caught:
        return x + 1, before, caught.__traceback__ is not None
