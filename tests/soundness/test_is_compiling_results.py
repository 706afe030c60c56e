"""Programs that branch on `is_compiling()`, and would fail where it is True, do what they do in eager."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch.compiler import is_compiling

import dynamo_lite as dl
from programs import check, checked, tensor

pytestmark = pytest.mark.skipif(os.environ.get("DL_REFERENCE") == "torch", reason="it tells them, and they fail")


class State:
    compiling = False


STATE = State()


@checked(tensor(3), graphs=2)
def test_the_answer_is_branched_on_after_a_break(x):
    strict = is_compiling()
    y = x + 1
    dl.graph_break()
    if strict:
        raise RuntimeError("only where it is compiled")
    return y * 2


@checked(tensor(3), graphs=2)
def test_what_a_branch_left_out_is_missing_after_a_break(x, mask=None):
    if mask is None and not is_compiling():
        mask = torch.ones(3)
    y = x + 1
    dl.graph_break()
    return y + mask[0]


@checked(tensor(3), graphs=1)
def test_a_break_where_only_a_compiled_program_comes(x):
    if is_compiling():
        y = x + 1
        dl.graph_break()
        raise RuntimeError(f"never {y}")
    return x + 2


def test_a_callee_returns_more_than_a_tensor():
    def how(x):
        return (x * 2, "compiled") if is_compiling() else (x * 2, "eager")

    def fn(x):
        y, compiling = how(x)
        dl.graph_break()
        return y + {"eager": 1}[compiling]

    check(fn, tensor(3), graphs=2)


def test_a_callee_returns_a_tensor_and_leaves_something_else():
    def double(x, notes):
        if is_compiling():
            notes.append("compiled")
        return x * 2

    def fn(x):
        notes: list[str] = []
        y = double(x, notes)
        dl.graph_break()
        if notes:
            raise RuntimeError("only where it is compiled")
        return y + 1

    check(fn, tensor(3), graphs=2)


@checked(tensor(3), graphs=2, watch=["STATE"])
def test_the_answer_is_put_into_an_object(x):
    STATE.compiling = is_compiling()
    x = x + 1
    dl.graph_break()
    if STATE.compiling:
        raise RuntimeError("only where it is compiled")
    return x * 2


def test_a_break_inside_of_the_callee_that_asked():
    def inner(x):
        compiling = is_compiling()
        x = x + 1
        dl.graph_break()
        if compiling:
            raise RuntimeError("only where it is compiled")
        return x * 2

    check(lambda x: inner(x * 3) + 1, tensor(3), graphs=2)


@checked(tensor(3), graphs=1, operators=1)
def test_what_raises_where_it_is_told_is_in_a_graph(x):
    if is_compiling():
        raise RuntimeError("only where it is compiled")
    return x + 1


def test_a_callee_that_leaves_no_more_than_a_tensor_is_told():
    def inner(x):
        return x + 1 if is_compiling() else x + float(x.new_tensor(1.0))

    def fn(x):
        for _ in range(3):
            x = inner(x)
        dl.graph_break()
        return x * 2

    check(fn, tensor(3), graphs=2, breaks=1)


def test_a_program_without_a_break_is_told():
    def fn(x) -> tuple[Any, bool]:
        compiling = is_compiling()
        return x + (1 if compiling else 1.0), compiling

    assert dl.compile(fn, backend="eager")(tensor(3))[1] is True
