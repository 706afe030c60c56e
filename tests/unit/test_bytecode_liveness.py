"""live_locals: the variables that may be read later, by examples and against real runs."""

from __future__ import annotations

import sys
import types

import pytest

from bytecode_checks import copy
from dynamo_lite.bytecode import assemble, decode, emit, live_locals

PY312 = sys.version_info >= (3, 12)


def live_at(function, opname, argval=None, which=0):
    """Returns the names that are live before the n-th instruction of that name."""
    code = function.__code__
    found = [each for each in decode(code) if each.opname == opname and argval in (None, each.argval)]
    return set(live_locals(code)[found[which].index])


def test_straight_line():
    def f(a, b):
        c = a
        d = c + b
        return d

    assert live_at(f, "RESUME") == {"a", "b"}
    assert live_at(f, "STORE_FAST", "c") == {"b"}
    assert live_at(f, "STORE_FAST", "d") == set()
    assert live_at(f, "RETURN_VALUE") == set()


def test_branches_join():
    def f(a, b, c):
        if a:
            return b
        c = 1
        return c

    assert live_at(f, "RESUME") == {"a", "b"}, "c is written before it is read"
    assert live_at(f, "STORE_FAST", "c") == set()


def test_loops_keep_variables_of_the_next_iteration_live():
    def f(xs, start):
        total = start
        for x in xs:
            total = total + x
        return total

    assert live_at(f, "FOR_ITER") == {"total"}
    assert live_at(f, "STORE_FAST", "x") == {"total"}
    assert live_at(f, "STORE_FAST", "total", which=1) == set(), "about to be written"


def test_handlers_need_what_they_read_before_the_write():
    def f(work, state):
        state = 0
        try:
            state = work()
        except ValueError:
            return state
        return None

    code = f.__code__
    inside = [each for each in decode(code) if each.opname == "STORE_FAST" and each.handler is not None]
    assert [each.argval for each in inside] == ["state"]
    assert "state" in live_locals(code)[inside[0].index], "the store is covered by the handler that reads the old value"
    call = next(each for each in decode(code) if each.opname == "CALL")
    assert live_locals(code)[call.index] == {"state"}


def test_finally_and_with():
    def f(manager, log, value):
        with manager:
            value = 1
        try:
            log.append(value)
        finally:
            log.clear()

    assert live_at(f, "RESUME") == {"manager", "log", "value"}, "the manager may swallow what stops the store"
    assert live_at(f, "BEFORE_WITH") == {"log", "value"}


def test_delete_keeps_the_variable_live_before():
    def f(a):
        del a
        a = 1
        return a

    assert live_at(f, "DELETE_FAST") == {"a"}
    assert live_at(f, "STORE_FAST") == set()


def test_cells_and_free_variables_are_always_live():
    def outside(n):
        k = 1

        def f(a):
            b = n
            a = 2
            return lambda: (a, k)

        return f

    f = outside(0)
    assert all({"a", "n", "k"} <= each for each in live_locals(f.__code__))
    assert all("b" not in each for each in live_locals(f.__code__))


@pytest.mark.skipif(not PY312, reason="comprehensions are inlined from 3.12 on")
def test_inlined_comprehensions_save_the_variable():
    def f(xs):
        x = 5
        ys = [x for x in xs]
        return x, ys

    assert "x" in live_at(f, "LOAD_FAST_AND_CLEAR")
    assert "x" not in live_at(f, "FOR_ITER"), "it is on the stack"


def search(xs, wanted, limit=3):
    found, at, seen = None, 0, {}
    for x in xs:
        try:
            if x in seen:
                continue
            seen[x] = at
            if x == wanted:
                found = at
                break
            if at > limit:
                raise ValueError(x)
        except ValueError as error:
            found = repr(error)
            del x
        finally:
            at += 1
    else:
        wanted = "nothing"
    again = [y for y in seen if y]
    return found, at, again, wanted


@pytest.mark.parametrize("args", [([1, 2, 3], 2), ([], 1), ([1, 1, 2, 3, 4, 5, 6], 7), ([1, 2, 3, 4, 5, 6], 6, 0)])
def test_variables_that_are_not_live_can_be_deleted(args):
    """The program runs with each variable deleted where it stops being live."""
    code = search.__code__
    live = live_locals(code)
    tried = 0
    for name in code.co_varnames:
        body = copy(decode(code))
        made = []
        for each in body:
            dead = name not in live[each.index] and each.opname not in ("RESUME", "PRECALL", "CALL")
            if dead:
                first = emit.load_const("poison")
                first.positions, first.handler = each.positions, each.handler
                made += [first, emit.store_fast(name)]
                made[-1].positions, made[-1].handler = each.positions, each.handler
                for other in body:
                    if other.target is each and each.opname != "END_FOR":
                        other.target = first
                tried += 1
            made.append(each)
        changed = types.FunctionType(assemble(made, like=code), globals(), "changed", search.__defaults__)
        assert changed(*args) == search(*args), name
    assert tried > 50
