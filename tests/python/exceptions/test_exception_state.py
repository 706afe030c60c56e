"""Fields and texts of exceptions that are created during tracing, and caught, returned or raised out of the graph.
Their classes derive from those in C that keep more than ``args``."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, tensor


class Gone(OSError):
    def __init__(self, code):
        super().__init__(code, "gone", "file")


class Silent(OSError):
    def __init__(self, code, text):
        self.extra = text


class Missing(ImportError):
    def __init__(self, what):
        super().__init__(f"no {what}", name="name", path="path")


class Exit(SystemExit):
    def __init__(self, code):
        super().__init__(code + 1)


class Hidden(Exception):
    @property
    def args(self):
        return ("hidden",)


class Mixed(ValueError, OSError):
    pass


class MixedAnew(ValueError, OSError):
    def __init__(self, code):
        super().__init__(code, "text")


MADE = [
    (Mixed, (1, "x")),
    (MixedAnew, (3,)),
    (Gone, (3,)),
    (Silent, (1, "a")),
    (Missing, ("q",)),
    (Exit, (3,)),
    (Hidden, (1,)),
    (OSError, (2, "x", "file")),
    (OSError, (2, "x", "file", None, "other")),
    (SyntaxError, ("m", ("f", 1, 2, "t"))),
    (StopIteration, (4,)),
    (KeyError, (1,)),
]
FIELDS = "args errno strerror filename filename2 value code name path msg start end reason object lineno text".split()


def said(error):
    fields = {name: getattr(error, name, None) for name in FIELDS}
    return type(error).__name__, str(error), repr(error), fields, vars(error), error.__cause__


@pytest.mark.parametrize(("cls", "args"), MADE)
def test_state_of_an_exception_raised_and_caught_inside(cls, args):
    def fn(x):
        y = x + 1
        try:
            raise cls(*args)
        except BaseException as error:
            fields = [getattr(error, name, None) for name in FIELDS]
            return y * 2, str(error), repr(error), fields, error.__cause__

    check(fn, tensor(2), graphs=None)


@pytest.mark.parametrize(("cls", "args"), MADE)
def test_state_of_a_returned_exception(cls, args):
    def fn(x):
        return x + 1, cls(*args)

    assert said(dl.compile(fn, backend="eager")(torch.ones(2))[1]) == said(fn(torch.ones(2))[1])


@pytest.mark.parametrize(("cls", "args"), MADE)
def test_state_of_an_exception_raised_out_of_the_graph(cls, args):
    def fn(x, seen):
        seen.append(x + 1)
        raise cls(*args)

    found = []
    for program in (fn, dl.compile(fn, backend="eager")):
        with pytest.raises(cls) as raised:
            program(torch.ones(2), [])
        found.append(said(raised.value))
    assert found[0] == found[1]


def test_init_of_the_program_runs_once():
    made = []

    class Counted(AttributeError):
        def __init__(self):
            made.append(len(made))
            super().__init__("can't set attribute")

    def fn(x):
        try:
            raise Counted
        except AttributeError as error:
            return x + 1, str(error)

    dl.compile(fn, backend="eager")(torch.ones(2))
    assert made == [0]


@checked(tensor(2), graphs=None, breaks=None)
def test_named_arguments_of_exceptions_in_c(x):
    found = []
    for cls, named in (
        (ImportError, {"name": "n"}),
        (AttributeError, {"name": "n", "obj": 3}),
        (NameError, {"name": "n"}),
    ):
        try:
            raise cls("message", **named)
        except cls as error:
            found.append((error.name, getattr(error, "obj", None), str(error)))
    return x + 1, found


@checked(tensor(2), graphs=1)
def test_unexpected_keyword_arguments_of_an_exception(x):
    try:
        raise ValueError("message", name="n")
    except TypeError as error:
        return x + 1, str(error)
