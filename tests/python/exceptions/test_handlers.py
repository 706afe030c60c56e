"""Exceptions raised and caught in programs, and those that leave them.

PYTEST_DONT_REWRITE: the programs' own assertions stay as they are written.
"""

from __future__ import annotations

from collector import Programs
from programs import check, tensor
from shared_programs import Problem

programs = Programs()


@programs(tensor(2), graphs=None)
def uncaught_has_lines_and_context(x):
    y = x + 1
    try:
        raise KeyError("first")
    except KeyError:
        raise Problem(y.dim(), "second")  # noqa: B904


def test_uncaught_from_three_calls_deep():
    def a(x):
        return b(x + 1)

    def b(x):
        return c(x * 2)

    def c(x):
        y = x - 1
        if y.dim() == 1:
            raise Problem("deep")
        return y

    check(a, tensor(2), graphs=None)


@programs(tensor(2), [], {}, graphs=None)
def side_effects_before_the_exception_are_kept(x, log, table):
    log.append(x + 1)
    table["k"] = 1
    x.add_(1)
    raise ValueError("stop")


@programs(tensor(2, 3), tensor(2, 3), graphs=None)
def tensor_error_leaves_with_its_line(x, y):
    z = x + 1
    w = z @ y
    return w


@programs(tensor(2), 1, operators=1, others=[(tensor(2), -1), (tensor(2, 2), 1)])
def assertions(x, n):
    assert x.dim() == 1
    assert n > 0, f"n is {n}"
    return x + n


@programs(tensor(2), [1], graphs=None, others=[(tensor(2), [1, 2])])
def stop_iteration_leaves(x, items):
    y = x + 1
    it = iter(items)
    return y + next(it) + next(it)


@programs(tensor(2), operators=1)
def exception_as_a_value(x):
    error = Problem(3, detail="kept")
    return x + error.code, error, isinstance(error, Exception), error.args


def test_called_while_an_exception_is_handled():
    def fn(x):
        y = x + 1
        raise ValueError("new")

    def program(x):
        try:
            raise KeyError("old")
        except KeyError:
            return fn(x)

    check(program, tensor(2), graphs=None)


@programs(tensor(2), operators=2)
def keyboard_interrupt_is_not_swallowed(x):
    y = x + 1
    try:
        raise KeyboardInterrupt
    except Exception:
        return y * 100
    except BaseException as error:
        return y * 2, type(error)


test_program = programs.test()
