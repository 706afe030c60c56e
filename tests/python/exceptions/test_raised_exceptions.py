"""Exceptions that leave blocks, handlers and frames, and what is handled afterwards."""

from __future__ import annotations

import logging
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import dynamo_lite as dl
import reference
from managers import Manager
from programs import Recorder, check, checked, tensor


def test_no_exception_is_handled_after_one_left_a_with():
    def fn(x, log):
        y = x * 2
        with Manager(log):
            y += x[:, :1].t()
        return y

    check(fn, tensor(2, 3), [], graphs=None)
    assert sys.exc_info()[0] is None


@pytest.mark.parametrize("depth", [1, 2])
def test_no_exception_is_handled_after_a_handler_raised(depth):
    def fn(x, log, depth):
        y = x * 2
        try:
            try:
                dl.graph_break()
                raise ValueError(1)
            finally:
                log.append(y.sum())
                dl.graph_break()
        except ValueError as error:
            if depth > 1:
                raise KeyError(2) from error
            dl.graph_break()
            raise

    check(fn, tensor(2, 3), [], depth, graphs=None)
    assert sys.exc_info()[0] is None


@checked(tensor(2), {"k": 1}, others=[(tensor(2), {})])
def test_delete_an_item_missing_in_a_later_call(x, table):
    y = x * 2
    del table["k"]
    return y


@pytest.mark.parametrize("make", [list, lambda: (each for each in ())])
@pytest.mark.parametrize("how", [next, lambda items: items.__next__()])
def test_end_of_iterator_while_an_exception_is_handled(make, how):
    def fn(x, make, how, seen):
        items = iter(make())
        try:
            raise KeyError("outer")
        except KeyError:
            try:
                how(items)
            except StopIteration as error:
                seen.append(type(error.__context__))
        return x + 1

    check(fn, tensor(2), make, how, [])


def test_error_of_a_failing_operator_mentions_no_fake_tensors():
    def fn(x):
        try:
            return x @ torch.ones(7, 7)
        except RuntimeError as error:
            return x + 1, str(error)

    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger(FakeTensorMode.__module__)
    level = logger.level
    logger.setLevel(logging.ERROR)  # programs made by a grammar, which may fail, silence it
    logger.addHandler(handler)
    try:
        check(fn, tensor(2, 3), graphs=None, breaks=None)
        assert not records
        with FakeTensorMode(), pytest.raises(RuntimeError):
            torch.ones(2, 3) @ torch.ones(7, 7)
        assert len(records) == 1
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_recursion_error_is_raised_and_caught():
    def down(x, n):
        return down(x + 1, n + 1)

    def fn(x):
        try:
            return down(x, 0)
        except RecursionError:
            return x * 2

    def program(x):
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(300)
        try:
            return fn(x)
        finally:
            sys.setrecursionlimit(before)

    check(program, tensor(2), graphs=None)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError, StopIteration])
def test_exceptions_leave_without_context_or_cause(error):
    def fn(x):
        y = x + 1
        raise error(y.dim())

    compiled = dl.compile(fn, backend=Recorder())
    with pytest.raises(error) as caught:
        compiled(torch.ones(2))
    assert caught.value.args == (1,)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_error_of_the_program_is_raised_under_fullgraph():
    def fn(x):
        raise ValueError("mine")

    compiled = dl.compile(fn, backend=Recorder(), fullgraph=True)
    with pytest.raises(ValueError, match="mine") if reference.MODE != "torch" else pytest.raises(Exception):
        compiled(torch.ones(2))


@checked(tensor(2, grad=True), [], graphs=(1, 2))
def test_grad_mode_is_restored_by_an_error_after_a_break(x, log):
    with torch.no_grad():
        log.append(1)
        y = x + 1
        dl.graph_break()
        log.append(2)
        raise ValueError(y.requires_grad)
