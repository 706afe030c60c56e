"""`is_compiling()` is True while a program is traced, whatever comes after it: breaks, errors, other calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.compiler import is_compiling

import dynamo_lite as dl
from programs import Recorder, tensor


class State:
    compiling = False


def run(fn, *args) -> tuple[Any, int]:
    """Returns the result of the compiled function, and its number of graphs."""
    recorder = Recorder()
    return dl.compile(fn, backend=recorder)(*args), len(recorder.graphs)


def test_result_is_live_across_a_break():
    def fn(x):
        compiling = is_compiling()
        y = x + 1
        dl.graph_break()
        return y * 2, compiling

    (_, compiling), graphs = run(fn, tensor(3))
    assert (compiling, graphs) == (True, 2)


def test_branch_with_another_structure_before_an_effect(capsys):
    def fn(x):
        if is_compiling():
            y: tuple[Any, Any] = (x + 1, None)
        else:
            y = (x + float(x.sum()), x[x > 0])
        print("between")
        return y[0] * 2

    result, graphs = run(fn, tensor(3))
    assert torch.equal(result, (tensor(3) + 1) * 2) and graphs == 2
    assert capsys.readouterr().out == "between\n"


def test_callee_returns_more_than_a_tensor():
    def how(x):
        return (x * 2, "compiled") if is_compiling() else (x * 2, "eager")

    def fn(x):
        y, mode = how(x)
        dl.graph_break()
        return y + 1, mode

    (_, mode), graphs = run(fn, tensor(3))
    assert (mode, graphs) == ("compiled", 2)


def test_callee_mutates_a_list():
    def double(x, notes):
        if is_compiling():
            notes.append("compiled")
        return x * 2

    def fn(x, notes):
        y = double(x, notes)
        dl.graph_break()
        return y + 1

    notes: list[str] = []
    assert run(fn, tensor(3), notes)[1] == 2
    assert notes == ["compiled"]


def test_result_is_stored_in_an_attribute():
    def fn(x, state):
        state.compiling = is_compiling()
        x = x + 1
        dl.graph_break()
        return x * 2

    state = State()
    assert run(fn, tensor(3), state)[1] == 2
    assert state.compiling


def test_break_inside_the_callee_that_called_it():
    def inner(x):
        compiling = is_compiling()
        x = x + 1
        dl.graph_break()
        return x * 2, compiling

    def fn(x):
        y, compiling = inner(x * 3)
        return y + 1, compiling

    (_, compiling), graphs = run(fn, tensor(3))
    assert (compiling, graphs) == (True, 2)


def test_backward_after_the_branch():
    weight = tensor(3, grad=True)

    def fn(x):
        mask = None if is_compiling() else x > 0
        loss = (x * weight).sum() if mask is None else (x * weight)[mask].sum()
        loss.backward()
        return loss

    _, graphs = run(fn, tensor(3))
    assert graphs == 1
    assert torch.equal(weight.grad, tensor(3))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_error_that_only_compiled_code_raises_reaches_the_caller(fullgraph):
    def fn(x):
        y = x + 1
        if is_compiling():
            raise NotImplementedError("not compiled")
        return y

    with pytest.raises((NotImplementedError, dl.exc.Unsupported), match="not compiled"):
        dl.compile(fn, backend="eager", fullgraph=fullgraph)(tensor(3))
    assert torch.equal(fn(tensor(3)), tensor(3) + 1)


def test_eager_code_after_a_break_is_not_compiling():
    @dl.disable
    def eager():
        return is_compiling()

    def fn(x):
        y = x + 1
        return y * 2, eager(), is_compiling()

    (_, outside, inside), _ = run(fn, tensor(3))
    assert (outside, inside) == (False, True)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_operation_that_fails_only_in_compiled_code(fullgraph):
    """A model of transformers makes no mask where it is compiled, and then indexes it."""

    def encode(x, mask):
        if mask is None and not is_compiling():
            mask = torch.ones(x.shape[0])
        return x * mask[:, None]

    def fn(x, mask=None):
        return encode(x + 1, mask).relu()

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, fullgraph=fullgraph)
    for _ in range(3):
        assert torch.equal(compiled(tensor(3, 2)), fn(tensor(3, 2)))
        assert torch.equal(compiled(tensor(3, 2), torch.zeros(3)), fn(tensor(3, 2), torch.zeros(3)))
    assert len(recorder.graphs) == 2


def test_an_operation_that_fails_in_eager_too():
    def fn(x):
        scale, names = (2 if is_compiling() else 3), None
        return x * scale, names["a"]

    for _ in range(2):
        with pytest.raises(TypeError, match="'NoneType' object is not subscriptable"):
            dl.compile(fn, backend="eager")(tensor(3))


def test_an_operation_that_fails_behind_a_break():
    def fn(x, mask=None):
        x = x + 1
        dl.graph_break()
        if mask is None and not is_compiling():
            mask = torch.ones(3)
        y = x * mask[:1]
        dl.graph_break()
        return y, is_compiling()

    result, compiling = run(fn, tensor(3))[0]
    assert torch.equal(result, fn(tensor(3))[0]) and compiling
