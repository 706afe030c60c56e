"""Breaks inside blocks of generator-based context managers: the exit is traced again."""

from __future__ import annotations

import contextlib

import pytest
import torch

import dynamo_lite as dl
from managers import told
from programs import check, checked, tensor, with_gradients


@contextlib.contextmanager
def scaled(x):
    y = x * 2
    yield y
    y.add_(1)


@checked(tensor(3), graphs=2, breaks=1)
def test_with_tensors(x):
    y = x + 1
    with scaled(y) as z:
        y = y * z
        print("here")
        y = y.sin()
    return y.cos(), z


@pytest.mark.parametrize("times", [1, 2])
def test_broken_again(times):
    def fn(x, times):
        log = []
        with told(log, "outer"), told(log, "inner"):
            x = x + 1
            for _ in range(times):
                print("here")
                x = x * 2
        return x, log

    check(fn, tensor(3), times, graphs=times + 1, breaks=times)


@pytest.mark.parametrize("error", [ValueError, TypeError])
def test_raised_by_what_breaks(error):
    @dl.disable
    def fail(x):
        raise error("no")

    def fn(x):
        log = []
        y = x + 1
        try:
            with told(log):
                y = y * 2
                fail(y)
                y = y * 3
        except TypeError as raised:
            log.append(str(raised))
        return y.sin(), log

    check(fn, tensor(3), graphs=2, breaks=1)


def test_raised_and_not_handled():
    @dl.disable
    def fail(x):
        raise KeyError("no")

    log = []

    def fn(x):
        with told(log):
            y = x * 2
            fail(y)
        return y

    check(fn, tensor(3), graphs=None)
    assert log[:2] == ["into block", "out of block"] and len(log) == 8


@checked(tensor(3), graphs=None)
def test_raised_after_it(x):
    log = []
    y = x + 1
    with told(log):
        print("here")
        y = y * 2
        if len(log) == 1:
            raise ValueError("no")
    return y, log


@checked(tensor(3), 1, graphs=None, others=[(tensor(3), 0), (tensor(3), 5)])
def test_left_by_return_and_break(x, n):
    log = []
    for at in range(3):
        with told(log, str(at)):
            x = x + at
            print("here")
            if at == n:
                break
            if at > n:
                return x, log
    return x * 2, log


def test_kept_elsewhere():
    held = []

    def fn(x):
        log = []
        manager = told(log)
        held.append(manager)
        with manager:
            x = x + 1
            print(len(held))
            x = x * 2
        return x, log, held.pop() is manager

    check(fn, tensor(3), graphs=None)


def test_in_a_callee():
    def inner(x, log):
        with told(log, "inner"):
            x = x.sin()
            print("here")
            x = x * 2
        return x

    def fn(x):
        log = []
        with told(log, "outer"):
            x = inner(x + 1, log) + 1
        return x, log

    check(fn, tensor(3), graphs=2, breaks=1)


def test_with_grad_mode():
    @contextlib.contextmanager
    def without():
        with torch.no_grad():
            yield

    def fn(x):
        y = x * 2
        with without():
            z = y + 1
            print("here")
            z = z * 2
        return y + z

    check(with_gradients(fn), tensor(3, grad=True), graphs=None)


def test_as_a_decorator():
    log = []

    @told(log, "decorated")
    def decorated(x):
        x = x + 1
        print("here")
        return x * 2

    def fn(x):
        log.clear()
        return decorated(x).sin(), list(log)

    check(fn, tensor(3), graphs=None)


@checked(tensor(3).abs(), others=[(-tensor(3).abs() - 9,)], graphs=2, breaks=1, all_graphs=3)
def test_interrupted_by_the_data(x):
    log = []
    with told(log):
        x = x + 1
        if x.sum() > 0:
            x = x * 2
        x = x - 1
    return x, log


@pytest.mark.parametrize("around", ["loop", "turn"])
def test_a_loop_compiles_once(around):
    def by_loop(x, n):
        log = []
        with told(log):
            for at in range(n):
                x = x + at
                print("here")
                x = x * 2
        return x, log

    def by_turn(x, n):
        log = []
        for at in range(n):
            with told(log):
                x = x + at
                print("here")
                x = x * 2
        return x, log

    fn = by_loop if around == "loop" else by_turn
    check(fn, tensor(3), 12, graphs=3, breaks=None)
