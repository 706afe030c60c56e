"""Output of the program, and contexts that capture it: print, warnings, logging, contextlib."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings

from collector import Programs
from programs import check, checked, recompiling, tensor, watching

programs = Programs()
silent = logging.getLogger("tests.silent")
silent.setLevel(logging.ERROR)
silent.propagate = False


class Collect(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


heard = Collect()
loud = logging.getLogger("tests.loud")
loud.setLevel(logging.INFO)
loud.propagate = False
loud.addHandler(heard)


@programs(tensor(2), 3, graphs=2, breaks=1)
def print_in_the_middle(x, n):
    y = x * n
    print("n is", n, sep="=", end="!\n")
    return y + 1


@programs(tensor(2), graphs=(1, 2))
def print_to_a_stream(x):
    y = x + 1
    stream = io.StringIO()
    print("a", 1, file=stream)
    return y * 2, stream.getvalue()


@programs(tensor(2), graphs=None)
def write_to_stdout(x):
    y = x + 1
    sys.stdout.write("text\n")
    sys.stdout.flush()
    return y


_warned = False


def warn_once(message):
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(message, stacklevel=2)


@checked(tensor(2), graphs=None)
@recompiling
@watching((sys.modules[__name__], "_warned"))
def test_a_warning_is_given_once(x):
    warn_once("once")
    return x + 1


@programs(tensor(2))
def a_logger_that_is_off(x):
    y = x + 1
    silent.debug("nobody hears %s", y.shape)
    silent.info("nor this")
    if silent.isEnabledFor(logging.DEBUG):
        y = y * 100
    return y * 2


@programs(tensor(2), graphs=2, breaks=1, cut=False)
def a_logger_that_is_on(x):
    y = x + 1
    loud.info("heard %d", 3)
    return y * 2


@checked(tensor(2), graphs=None)
@watching((heard, "lines"))
def test_logger_receives_the_records_of_eager(x):
    y = x + 1
    loud.warning("one")
    loud.debug("not this")
    loud.error("two %s", "words")
    return y * 2


def test_a_logger_is_turned_on_between_calls():
    def fn(x):
        loud.debug("debugged")
        return x + 1

    def program(x, level):
        loud.setLevel(level)
        try:
            return fn(x)
        finally:
            loud.setLevel(logging.INFO)

    check(
        watching((heard, "lines"))(program),
        tensor(2),
        logging.INFO,
        graphs=None,
        others=[(tensor(2), logging.DEBUG), (tensor(2), logging.INFO)],
    )


@programs(tensor(2))
def suppress_swallows_only_its_own(x):
    log = []
    with contextlib.suppress(KeyError, ValueError):
        log.append(1)
        {}["a"]
        log.append(2)
    try:
        with contextlib.suppress(KeyError):
            raise ZeroDivisionError("z")
    except ZeroDivisionError as error:
        log.append(str(error))
    with contextlib.suppress():  # noqa: B022
        log.append(3)
    return x + len(log), log


class Door:
    def __init__(self):
        self.log = []

    def close(self):
        self.log.append("closed")


@programs(tensor(2), Door())
def closing_closes(x, door):
    with contextlib.closing(door) as d:
        y = x + 1
        d.log.append("in")
    try:
        with contextlib.closing(door):
            raise ValueError
    except ValueError:
        pass
    return y, door.log


@programs(tensor(2), graphs=None)
def output_is_redirected(x):
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        y = x + 1
        print("inside")
    print("outside")
    return y * 2, stream.getvalue()


class Timer(contextlib.ContextDecorator):
    def __init__(self):
        self.entered = 0

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, *error):
        return False


timer = Timer()


@programs(tensor(2), all_graphs=None)
@recompiling
@watching((timer, "entered"))
def a_context_decorator(x):
    @timer
    def f(v):
        return v * 2

    with timer as t:
        y = f(x)
    return y + 1, t.entered


test_output = programs.test()
