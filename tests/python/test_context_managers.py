"""Context managers: torch's modes and their state afterwards, the user's own, which swallow, replace and fail, and
``ExitStack``."""

from __future__ import annotations

import contextlib

import pytest
import torch

from collector import Programs
from managers import Manager, told
from programs import check, checked, tensor, with_gradients
from shared_programs import Problem

program = Programs(tensor(3), 3, others=[(tensor(5, seed=1), 4)])
CUT = None


class Quiet(Exception):
    pass


@checked(tensor(3, grad=True), operators=4)
@with_gradients
def test_nested_grad_modes(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
            with torch.set_grad_enabled(False):
                c = x * 4
        d = x * 5
    return a, b, c, d, torch.is_grad_enabled()


def test_no_grad_as_decorator():
    @torch.no_grad()
    def inner(x):
        return x * 2

    def fn(x):
        return inner(x), x * 3

    check(fn, tensor(3, grad=True), operators=2)


def test_no_grad_decorates_the_program():
    @torch.no_grad()
    def fn(x):
        return x * 2, torch.is_grad_enabled()

    check(fn, tensor(3, grad=True), operators=1)


def test_grad_mode_left_changed():
    def fn(x, mode):
        y = x * 2
        torch.set_grad_enabled(mode)
        return y, x * 3

    def program(x, mode):
        before = torch.is_grad_enabled()
        try:
            return fn(x, mode), torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(before)

    check(program, tensor(3, grad=True), False, operators=2)


@checked(tensor(3, 3), tensor(3, 3, seed=1), operators=3)
def test_autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = x @ w
    return y, z, x @ w, y.dtype


@pytest.mark.on_cpu
def test_autocast_decorator_and_backward():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def inner(x, w):
        return x @ w

    def fn(x, w):
        return inner(x, w).float().sum()

    check(with_gradients(fn), tensor(3, 3), tensor(3, 3, seed=1, grad=True), operators=3)


def test_autocast_around_the_call():
    def fn(x):
        return x @ x

    def program(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return fn(x)

    check(program, tensor(3, 3), operators=1)


def test_users_manager_given():
    class Manager:
        def __init__(self):
            self.depth = 0

        def __enter__(self):
            self.depth += 1
            return self

        def __exit__(self, *error):
            self.depth -= 1
            return False

    def fn(x, manager):
        with manager, manager as m:
            y = x * m.depth
        return y, manager.depth

    check(fn, tensor(3), Manager(), operators=1)


def test_contextmanager_function_around_no_grad():
    @contextlib.contextmanager
    def quiet():
        with torch.no_grad():
            yield

    def fn(x):
        with quiet():
            y = x * 2
        return y, x * 3

    check(fn, tensor(3, grad=True), graphs=1, operators=2)


@checked(tensor(3, grad=True), True, operators=1, others=[(tensor(3, grad=True), False)], all_graphs=2)
def test_nullcontext_and_conditional_manager(x, quiet):
    with torch.no_grad() if quiet else contextlib.nullcontext():
        return x * 2


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


@program(tensor(3, grad=True), 3, others=[(tensor(5, seed=1, grad=True), 4)])
def grad_mode_is_put_back_by_an_error(x, n):
    try:
        with torch.no_grad():
            y = x * 2
            CUT
            raise Quiet
    except Quiet:
        z = x * 3
    return y.requires_grad, z.requires_grad, z


test_program = program.test()
