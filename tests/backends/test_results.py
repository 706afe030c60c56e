"""Backends that return a wrong result: one error names the backend, and the program's state is unchanged."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl


def compiling_to(code):
    """Returns a backend whose code returns ``code(results of the graph)``."""

    def careless(gm, example_inputs):
        return lambda *inputs: code(gm.forward(*inputs))

    return careless


@pytest.mark.parametrize(
    "returned, described",
    [
        (None, "returned None, which"),
        (3, "returned an object of type int, which"),
        ((torch.relu, ()), "returned a tuple of 2, which"),
    ],
)
def test_backend_that_returns_no_callable_is_named_in_the_error(returned, described):
    def careless(gm, example_inputs):
        return returned

    log = []

    def fn(x):
        log.append(x)
        return x + 1

    with pytest.raises(dl.exc.WrongBackendResult, match=f"backend 'careless' {described} can't be called") as caught:
        dl.compile(fn, backend=careless)(torch.ones(2))
    assert caught.value.backend == "careless" and isinstance(caught.value, dl.exc.BackendCompilerFailed)
    assert "Hint: backend(gm, example_inputs) returns a callable" in str(caught.value)
    assert log == []


@pytest.mark.parametrize(
    "code, described",
    [
        (lambda results: results[:1], "a tuple of 1"),
        (lambda results: [*results, *results], "a list of 4"),
        (lambda results: None, "None"),
        (lambda results: torch.stack(results), "an object of type Tensor"),  # it could be unpacked into as many rows
        (lambda results: iter(results), "an object of type tuple_iterator"),
    ],
)
@pytest.mark.parametrize("grad", [True, False])
def test_invalid_results_of_a_graph_raise_one_error(code, described, grad):
    log = []

    def fn(x):
        log.append("seen")
        return x + 1, x * 2

    compiled = dl.compile(fn, backend=compiling_to(code))
    with torch.set_grad_enabled(grad):
        for _ in range(2):  # when it is compiled, and when it is found again
            with pytest.raises(
                dl.exc.WrongBackendResult,
                match=f"backend 'careless' compiled a graph of 2 results to code that returned {described}\n",
            ):
                compiled(torch.ones(2))
        assert log == [] and torch.is_grad_enabled() == grad


def test_a_tensor_in_the_place_of_one_result():
    def fn(x):
        return x + 1

    with pytest.raises(
        dl.exc.WrongBackendResult, match="a graph of 1 result to code that returned an object of type Tensor"
    ):
        dl.compile(fn, backend=compiling_to(lambda results: results[0]))(torch.ones(1, 3))


def test_a_graph_without_results():
    def fn(x):
        x.add_(1)

    x = torch.zeros(2)
    for code in (lambda results: None, lambda results: (), lambda results: []):
        dl.compile(fn, backend=compiling_to(code))(x)
    assert x.tolist() == [3, 3]
    with pytest.raises(dl.exc.WrongBackendResult, match="a graph of 0 results to code that returned a tuple of 1"):
        dl.compile(fn, backend=compiling_to(lambda results: (x,)))(x)


def test_lists_and_subclasses_of_tuple_and_list_are_right():
    class Results(tuple):
        pass

    def fn(x):
        return x + 1, x * 2

    for kind in (list, Results, torch.fx.immutable_collections.immutable_list):
        found = dl.compile(fn, backend=compiling_to(kind))(torch.ones(1))
        assert found == (2, 2)


def test_wrong_result_is_not_handled_as_a_failure_on_the_data():
    """A program may handle errors of its operators. A fault of the backend isn't such an error."""

    def fn(x, index):
        try:
            return x[index] + 1
        except IndexError:
            return x

    compiled = dl.compile(fn, backend=compiling_to(lambda results: ()))
    with pytest.raises(dl.exc.WrongBackendResult, match="'careless' compiled a graph of"):
        compiled(torch.ones(3), torch.tensor([1]))


def test_checked_conditions_do_not_hide_it():
    def fn(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return x + 1

    for code in (lambda results: results[:1], lambda results: results[0]):
        with pytest.raises(dl.exc.WrongBackendResult, match="'careless' compiled a graph of 2 results"):
            dl.compile(fn, backend=compiling_to(code))(torch.ones(3))


def test_torchs_state_is_restored_after_a_wrong_result():
    def fn(x):
        with torch.no_grad():
            y = x + 1
        torch._C._set_grad_enabled(False)
        return y

    with pytest.raises(dl.exc.WrongBackendResult):
        dl.compile(fn, backend=compiling_to(lambda results: None))(torch.ones(3))
    assert torch.is_grad_enabled()


def test_breaks_before_it_have_happened():
    log = []

    def careless(gm, example_inputs):
        last = any(node.target is torch.cos for node in gm.graph.nodes)
        return lambda *inputs: () if last else gm.forward(*inputs)

    def fn(x):
        x = torch.sin(x)
        log.append("first")
        dl.graph_break()
        x = torch.cos(x)
        log.append("second")
        return x

    with pytest.raises(dl.exc.WrongBackendResult, match="'careless' compiled a graph of 1 result"):
        dl.compile(fn, backend=careless)(torch.ones(3))
    assert log == ["first"]
