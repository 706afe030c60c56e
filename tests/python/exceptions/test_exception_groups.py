"""``except*`` and exception groups; context managers that swallow, replace and fail; ``ExitStack``."""

from __future__ import annotations

import contextlib

import torch

from cuts import Programs
from managers import Manager, told
from programs import tensor
from shared_programs import Problem

program = Programs()
CUT = None


@program(graphs=0)
def groups_are_split_between_handlers(x, n):
    log = []
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError(2), ValueError(3)])
    except* ValueError as group:
        log.append(("value", [error.args for error in group.exceptions], group.message))
    except* KeyError as group:
        log.append(("key", [error.args for error in group.exceptions]))
    CUT
    return x + len(log), log


@program()
def nothing_raised_under_except_star(x, n):
    log = []
    try:
        y = x + 1
    except* ValueError:
        log.append("never")
    else:
        log.append("else")
    finally:
        CUT
        log.append("finally")
    return y, log


class Quiet(Exception):
    pass


@program(graphs=1, breaks=4)
def group_methods(x, n):
    group = ExceptionGroup("many", [ValueError(1), ExceptionGroup("inner", [KeyError(2), ValueError(3)])])
    matched, rest = group.split(ValueError)
    only = group.subgroup(lambda error: isinstance(error, KeyError))
    return x + 1, len(matched.exceptions), rest.message, len(only.exceptions), group.message


@program()
def manager_that_swallows(x, n):
    log = []
    with Manager(log, "a", swallow=True) as name:
        log.append(name)
        CUT
        raise Problem(n)
    return x + len(log), log


@program()
def managers_nested_in_one_statement(x, n):
    log = []
    try:
        with Manager(log, "a") as a, Manager(log, "b", swallow=True) as b, Manager(log, "c", fails="exit"):
            CUT
            log.append(a + b)
            raise Quiet("body")
        log.append("after")
    except Problem:
        log.append("never")
    return x + len(log), log


@program()
def manager_that_fails_to_enter(x, n):
    log = []
    try:
        with Manager(log, "a"), Manager(log, "b", fails="enter"):
            log.append("never")
    except Problem as error:
        CUT
        log.append(error.detail)
    return x + 1, log


@program()
def leaving_a_with_block_by_return_break_and_continue(x, n):
    log = []

    def inner():
        for i in range(3):
            with Manager(log, str(i)):
                if i == 0:
                    continue
                CUT
                if i == 1:
                    break
        with Manager(log, "return"):
            return x + 1

    return inner(), log


@program()
def exit_stack_of_callbacks(x, n):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "first")
        stack.callback(lambda a, b=0: log.append((a, b)), 1, b=2)
        CUT
        log.append("body")
    return x + 1, log


@program()
def exit_stack_swallows_and_replaces(x, n):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(log, "outer", swallow=True))
        stack.enter_context(Manager(log, "inner", fails="exit"))
        CUT
        raise Quiet("body")
    return x + 1, log


@program()
def exit_stack_closed_early_and_moved(x, n):
    log = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(Manager(log, "a"))
        kept = stack.pop_all()
        stack.enter_context(Manager(log, "b"))
        CUT
        stack.close()
        log.append("closed")
    log.append("after")
    kept.close()
    return x + 1, log


@program()
def exit_stack_of_torch_contexts(x, n):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if n > 3:
            stack.enter_context(contextlib.nullcontext())
        y = x * 2
        CUT
    return y, y.requires_grad, torch.is_grad_enabled()


@program()
def generator_manager_that_swallows(x, n):
    log = []
    with told(log, "a"):
        CUT
        raise ValueError("body")
    return x + len(log), log


@program()
def generator_manager_lets_others_pass(x, n):
    log = []
    try:
        with told(log, "a"):
            CUT
            raise Problem(n)
    except Problem as error:
        log.append(str(error))
    return x + 1, log


@program()
def generator_manager_as_a_decorator(x, n):
    log = []

    @told(log, "decorated")
    def inner(y):
        CUT
        return y + 1

    return inner(x), inner(x + 1), log


@program()
def generator_manager_that_changes_the_error(x, n):
    @contextlib.contextmanager
    def translate():
        try:
            yield
        except KeyError as error:
            raise Quiet("translated") from error

    try:
        with translate():
            CUT
            raise KeyError("original")
    except Quiet as error:
        return x + 1, str(error), repr(error.__cause__)


@program(inputs=(tensor(3, grad=True), 3), others=[(tensor(5, seed=1, grad=True), 4)])
def grad_mode_is_put_back_by_an_error(x, n):
    try:
        with torch.no_grad():
            y = x * 2
            CUT
            raise Quiet
    except Quiet:
        z = x * 3
    return y.requires_grad, z.requires_grad, z


@program(graphs=(0, 1), breaks=(0, 2))
def error_leaves_the_frame_with_its_chain(x, n):
    y = x + 1
    try:
        raise KeyError("a")
    except KeyError as error:
        raise Problem(y.shape[0], "leaves") from error


@program(graphs=(0, 2), breaks=(0, 3))
def error_leaves_through_finally_with_effects(x, n, log=None):
    log = []
    try:
        y = x + 1
        raise Quiet(log, y)
    finally:
        CUT
        log.append("finally")


test_program = program.test()
