"""Context managers: torch's modes, the user's own, and the modes' state afterwards."""

from __future__ import annotations

import contextlib

import pytest
import torch

from programs import check, checked, tensor


@checked(tensor(3, grad=True), operators=4, backward=True)
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

    check(fn, tensor(3, 3), tensor(3, 3, seed=1, grad=True), operators=3, backward=True)


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
