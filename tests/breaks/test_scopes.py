"""Frames whose variables are read by name (``locals()``) are not split; methods of such names don't count."""

from __future__ import annotations

import builtins
import inspect
import sys

import pytest
import torch
from torch import nn

import dynamo_lite as dl
from programs import check, checked, tensor

evaluate = eval
variables = locals
frame_of = sys._getframe
current = inspect.currentframe
of_module = builtins


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.drop = nn.Dropout()

    def forward(self, x):
        return self.drop(self.layer(x))


def test_a_method_of_that_name():
    torch.manual_seed(0)
    net = Net()

    def fn(x):
        net.train()
        y = net(x)
        net.eval()
        print("here")
        return net(y)

    check(fn, tensor(2, 3), graphs=2, breaks=1)


@checked(tensor(3), graphs=None)
def test_eval_under_another_name(x):
    a = 3
    y = x + a
    print("here")
    return y, evaluate("a")


def test_eval_of_the_module():
    def fn(x):
        a = 3
        y = x + a
        print("here")
        return y, of_module.eval("a")

    def importing(x):
        import builtins as known

        a = 3
        y = x + a
        print("here")
        return y, known.eval("a")

    check(fn, tensor(3), graphs=None)
    check(importing, tensor(3), graphs=None)


@checked(tensor(3), graphs=None)
def test_locals_under_another_name(x):
    a = 3
    y = x + a
    print("here")
    return y, sorted(variables())


@checked(tensor(3), graphs=None)
def test_the_frame_under_another_name(x):
    a = 3
    y = x + a
    print("here")
    return y, frame_of(0).f_locals["a"], current().f_locals["a"]


def test_an_alias_in_a_callee():
    def named(x):
        a = 3
        y = x + a
        print("here")
        return y, evaluate("a")

    def fn(x):
        y, a = named(x + 1)
        return y + a

    check(fn, tensor(3), graphs=None)


class Settings:
    def __init__(self, rate):
        self.rate = rate
        self.count = 2


@pytest.mark.parametrize("more", [False, True])
def test_attributes_of_another_object_by_name(more):
    """`vars` and `dir` read the frame only without an argument."""

    def scaled(x, rate, count):
        return x * rate + count

    def fn(x, settings, more):
        y = scaled(x, **vars(settings))
        print("here")
        names = dir(settings if more or vars(settings)["rate"] > 1 else None)
        return y + 1, "rate" in names

    check(fn, tensor(3), Settings(0.5), more, graphs=2, breaks=2)


def test_attributes_that_are_called_like_readers():
    class Folder:
        dir = vars = 3

    def fn(x, folder):
        y = x * folder.dir
        print("here")
        return y + folder.vars

    check(fn, tensor(3), Folder(), graphs=2, breaks=1)


def test_the_frame_by_vars_and_dir():
    def by_vars(x):
        y = x + 1
        print("here")
        return y * 2, sorted(vars())

    def by_dir(x):
        y = x + 1
        print("here")
        return y * 2, dir()

    def starred(x):
        y, nothing = x + 1, ()
        print("here")
        return y * 2, sorted(vars(*nothing))

    def passed_on(x):
        y, read = x + 1, vars
        print("here")
        return y * 2, sorted(read())

    def of_builtins(x):
        import builtins as known

        y = x + 1
        print("here")
        return y * 2, of_module.dir(), "y" in known.vars()

    for fn in (by_vars, by_dir, starred, passed_on, of_builtins):
        check(fn, tensor(3), graphs=None)


@checked(tensor(2), [1, 2, 3], graphs=None)
def test_in_a_comprehension_whose_variable_closures_share(x, items):
    v, x = 7, x + 1
    outer = lambda: v  # noqa: E731
    inner = [((lambda: v), dl.graph_break()) for v in items]
    v += 1
    return [each() for each, _ in inner], x * outer()


@checked(tensor(2), [1, 2, 3], graphs=None)
def test_beside_a_comprehension_whose_variable_closures_share(x, items):
    v, x = 7, x + 1
    dl.graph_break()
    inner = [(lambda: v) for v in items]
    dl.graph_break()
    for _ in items:
        x = x + v
    return [each() for each in inner], x


@checked(tensor(2), [1, 2, 3], graphs=None)
def test_in_a_comprehension_beside_one_whose_variable_closures_share(x, items):
    inner = [(lambda: v) for v in items]
    v, x = 5, x + 1
    count = len([v for v in items if x.sum() > 1])
    return [each() for each in inner], count, x + v
