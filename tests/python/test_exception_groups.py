"""``except*`` and exception groups; context managers that swallow, replace and fail; ``ExitStack``."""

from __future__ import annotations

import contextlib

import pytest
import torch

from cuts import Place, Programs, run_program
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


@program(graphs=0)
def groups_leave_a_rest(x, n):
    log = []
    try:
        try:
            raise ExceptionGroup("many", [ValueError(1), TypeError(2)])
        except* ValueError:
            log.append("value")
    except ExceptionGroup as rest:
        CUT
        log.append([type(error).__name__ for error in rest.exceptions])
    return x + 1, log


@program(graphs=0)
def a_plain_error_is_wrapped_for_except_star(x, n):
    try:
        raise ValueError("alone")
    except* ValueError as group:
        CUT
        found = group.exceptions[0].args
    return x + 1, found


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


@program(graphs=0)
def errors_raised_in_except_star(x, n):
    log = []
    try:
        try:
            raise ExceptionGroup("many", [ValueError(1), KeyError(2)])
        except* ValueError:
            raise Quiet("from the handler")  # noqa: B904
    except ExceptionGroup as group:
        log += [type(error).__name__ for error in group.exceptions]
        log.append(type(group.exceptions[0].__context__))
    try:
        try:
            raise ExceptionGroup("many", [ValueError(1), KeyError(2)])
        except* ValueError:
            raise Quiet("alone")  # noqa: B904
        except* KeyError:
            CUT
    except Quiet as error:
        log.append(repr(error.__context__))
    return x + 1, log


@program(graphs=1, breaks=4)
def group_methods(x, n):
    group = ExceptionGroup("many", [ValueError(1), ExceptionGroup("inner", [KeyError(2), ValueError(3)])])
    matched, rest = group.split(ValueError)
    only = group.subgroup(lambda error: isinstance(error, KeyError))
    return x + 1, len(matched.exceptions), rest.message, len(only.exceptions), group.message


class Manager:
    def __init__(self, log, name, swallow=False, fails=None):
        self.log = log
        self.name = name
        self.swallow = swallow
        self.fails = fails

    def __enter__(self):
        self.log.append("enter " + self.name)
        if self.fails == "enter":
            raise Problem(1, "in enter")
        return self.name

    def __exit__(self, kind, error, trace):
        self.log.append(("exit " + self.name, None if kind is None else kind.__name__, str(error)))
        if self.fails == "exit":
            raise Problem(2, "in exit")
        return self.swallow


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
def exit_stack_of_managers(x, n):
    log = []
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(Manager(log, name)) for name in "abc"]
        CUT
        y = x + len(names)
    return y, log


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
def exit_stack_lets_an_error_out(x, n):
    log = []
    try:
        with contextlib.ExitStack() as stack:
            stack.push(Manager(log, "pushed"))
            stack.enter_context(Manager(log, "entered"))
            CUT
            raise Quiet("body")
    except Quiet as error:
        log.append((str(error), error.__context__))
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
def suppress(x, n):
    log = []
    with contextlib.suppress(KeyError, IndexError):
        log.append("in")
        CUT
        {}["missing"]
        log.append("never")
    with contextlib.suppress(KeyError):
        log.append("quiet")
    return x + 1, log


@program()
def suppress_lets_others_pass(x, n):
    try:
        with contextlib.suppress(KeyError):
            raise Quiet("other")
    except Quiet as error:
        CUT
        return x + 1, str(error)


class Thing:
    closed = False

    def close(self):
        self.closed = True


@program()
def closing_and_nullcontext(x, n):
    thing = Thing()
    with contextlib.closing(thing) as same, contextlib.nullcontext(n) as k:
        CUT
        inside = same.closed
    return x + k, inside, thing.closed


@contextlib.contextmanager
def logged(log, name):
    log.append("enter " + name)
    try:
        yield name
    except Quiet as error:
        log.append("caught " + str(error))
    finally:
        log.append("exit " + name)


@program()
def generator_manager_that_swallows(x, n):
    log = []
    with logged(log, "a"):
        CUT
        raise Quiet("body")
    return x + len(log), log


@program()
def generator_manager_lets_others_pass(x, n):
    log = []
    try:
        with logged(log, "a"):
            CUT
            raise Problem(n)
    except Problem as error:
        log.append(str(error))
    return x + 1, log


@program()
def generator_manager_as_a_decorator(x, n):
    log = []

    @logged(log, "decorated")
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


@program()
def generator_manager_that_yields_tensors(x, n):
    @contextlib.contextmanager
    def scaled(by):
        y = x * by
        yield y
        y.add_(1)

    with scaled(2) as y:
        z = y + 1
        CUT
    return y, z


@program()
def generator_manager_that_does_not_yield(x, n):
    @contextlib.contextmanager
    def empty():
        return
        yield

    try:
        with empty():
            pass
    except RuntimeError as error:
        return x + 1, str(error)


class Noted(contextlib.ContextDecorator):
    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, *error):
        self.log.append("exit")
        return False


@program()
def manager_class_with_context_decorator(x, n):
    noted = Noted()

    @noted
    def inner(y):
        return y * 2

    return inner(x), noted.log


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


@pytest.mark.parametrize("place, kind", program.parameters())
def test_program(place: Place, kind: str) -> None:
    run_program(place, kind)
