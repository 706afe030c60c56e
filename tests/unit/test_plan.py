"""Plans: what the new code of a frame does around its graph, as data."""

from __future__ import annotations

import re
import sys
import textwrap

import pytest
import torch

import dynamo_lite as dl
from dynamo_lite.codegen.emitter import load, run
from dynamo_lite.compiler import restart_loop
from dynamo_lite.plan.rows import (
    Attribute,
    Binary,
    Build,
    Call,
    Constant,
    DeleteAttribute,
    Do,
    Extend,
    GraphResult,
    Item,
    Keep,
    Local,
    SetAttribute,
    SetItem,
)

X, RESULT = Local("x"), GraphResult(0)
ROWS = {
    "x": X,
    "value1": Local("___value1"),
    "'a'": Constant("a"),
    "(1, 'a', len)": Constant((1, "a", len)),
    "<object>": Constant(object()),
    "result 0 of the graph": RESULT,
    "len(x)": Call(Constant(len), (X,)),
    "x(result 0 of the graph, y=1)": Call(X, (RESULT, Constant(1)), ("y",)),
    "x.y": Attribute(X, "y"),
    "x[0]": Item(X, Constant(0)),
    "(x,)": Build("TUPLE", (X,)),
    "[x, x]": Build("LIST", (X, X)),
    "{'a': x}": Build("MAP", (Constant("a"), X)),
    "slice(x, x, x)": Build("SLICE", (X, X, X)),
    "(x + -1)": Binary("+", X, Constant(-1)),
    "value1 = x": Keep(Local("___value1"), X),
    "x.y = 1": SetAttribute(X, "y", Constant(1)),
    "del x.y": DeleteAttribute(X, "y"),
    "x[0] = 1": SetItem(X, Constant(0), Constant(1)),
    "x += (x,)": Extend(X, Build("TUPLE", (X,))),
    "x()": Do(Call(X, ())),
}


@pytest.mark.parametrize("text", ROWS)
def test_rows_print_as_python_statements(text):
    assert str(ROWS[text]) == text


def test_rows_compare():
    assert Call(Constant(len), (X,)) == Call(Constant(len), (Local("x"),)) != Call(Constant(id), (X,))


def test_long_sums_are_emitted_without_recursion():
    total = X
    for _ in range(5000):
        total = Binary("+", total, X)
    assert len(load(total)) == 10_001


def test_steps_leave_the_stack_as_it_was():
    steps = [
        row for row in ROWS.values() if isinstance(row, (Keep, Do, SetAttribute, DeleteAttribute, SetItem, Extend))
    ]
    assert len(run(steps)) == sum(len(run([each])) for each in steps)


def shown(fn, *args):
    plan = dl.explain(fn)(*args).plan
    first, *lines = plan.splitlines()
    assert first.startswith(fn.__qualname__)
    return textwrap.dedent("\n".join(lines))


def test_aliases_are_created_once():
    def program(x):
        pair = [x + 1]
        return pair, pair

    assert shown(program, torch.ones(2)) == textwrap.dedent("""\
        call the graph with x
        value1 = []
        value1 += (result 0 of the graph,)
        value2 = (value1, value1)
        return value2""")


def test_container_that_contains_itself_is_planned():
    def program(x):
        items = [x + 1]
        items.append(items)
        return items

    assert shown(program, torch.ones(2)) == textwrap.dedent("""\
        call the graph with x
        value1 = []
        value1 += (result 0 of the graph, value1)
        return value1""")


def test_a_break_shows_locals_and_stack():
    def program(x, n):
        y = x + 1
        print("n", n)
        return y * n

    first, second = dl.explain(program)(torch.ones(2), 2).plans
    callee = "print, NULL" if sys.version_info >= (3, 13) else "NULL, print"
    assert f"the stack is {callee}, 'n', n" in first and "y = result 0 of the graph" in first
    assert "CPython runs one instruction of " in first and second.endswith("return result 0 of the graph")


def test_the_graph_breaks_at_the_first_value_that_cpython_must_create(monkeypatch):
    """Of four frames, three take two attempts, although the value that is created last is planned first."""
    begun = []
    begin = restart_loop._begin
    monkeypatch.setattr(restart_loop, "_begin", lambda *args: begun.append(1) or begin(*args))

    def program(x):
        y = x + 1
        first, second, third = re.match("a", "ab"), re.match("a", "ac"), re.match("b", "b")
        return third, second, first, y * 2

    found = dl.compile(program, backend="eager")(torch.ones(2))
    assert [each.string for each in found[:3]] == ["b", "ac", "ab"] and torch.equal(found[3], torch.full((2,), 4.0))
    assert len(begun) == 7
