"""``__cause__``, ``__context__`` and ``__suppress_context__`` of pre-existing exceptions."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl


def context(x, error):
    error.__context__ = KeyError("other")
    return x + 1, type(error.__context__)


def cause(x, error):
    error.__cause__ = KeyError("other")
    error.tag = 4
    return x + 1, error.__suppress_context__, error.tag


def cause_after_it_was_shown(x, error):
    error.__suppress_context__ = False
    error.__cause__ = KeyError("other")
    return x + 1, error.__suppress_context__


def none_of_them(x, error):
    error.__cause__ = error.__context__ = None
    return x + 1, error.__suppress_context__


def raised_after_it_was_linked(x, error):
    error.__cause__ = KeyError("other")
    try:
        raise error
    except ValueError as caught:
        return x + 1, caught is error, type(caught.__cause__)


def linked_to_what_is_none(x, error):
    try:
        error.__cause__ = 3
    except TypeError as refused:
        return x + 1, str(refused)


PROGRAMS = [context, cause, cause_after_it_was_shown, none_of_them, raised_after_it_was_linked, linked_to_what_is_none]


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_written_links_are_kept_after_the_call(fn, linked):
    def outcome(called):
        error = ValueError("a")
        if linked:
            error.__cause__, error.__context__ = OSError("cause"), OSError("context")
        result, *seen = called(torch.arange(3.0), error)
        links = type(error.__cause__), type(error.__context__), error.__suppress_context__, vars(error)
        return result.tolist(), seen, links

    compiled = dl.compile(fn, backend="eager")
    for _ in range(2):
        assert outcome(compiled) == outcome(fn)
