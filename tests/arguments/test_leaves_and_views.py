"""One compiled function is called with leaves, with views and with results of operators: of these autograd lets some
be mutated, and some require gradients because their base does."""

from __future__ import annotations

import traceback

import pytest
import torch

import dynamo_lite as dl


def leaf():
    return torch.ones(4, requires_grad=True)


def view_without_gradients():
    with torch.no_grad():
        return (leaf() * 2).view(-1)


INPUTS = {
    "plain": lambda: torch.ones(4),
    "leaf": leaf,
    "result": lambda: leaf() * 2,
    "view of a leaf": lambda: leaf().view(-1),
    "view of a result": lambda: (leaf() * 2).view(-1),
    "view without gradients": view_without_gradients,
    "part of a split": lambda: (leaf() * 2).unbind()[0].view(-1),
}


def mutate(value, log):
    log.append("before")
    beside = value + 1
    value += 1
    return value, beside


def mutate_a_view(value, log):
    log.append("before")
    value[0].mul_(2)
    return (value,)


BY = torch.ones(1, requires_grad=True)


def mutate_by_a_leaf(value, log):
    log.append("before")
    value.add_(BY)
    return (value,)


def only_read(value, log):
    log.append(value.requires_grad)
    return (value * 2,)


def outcome(fn, value):
    log = []
    try:
        results = fn(value, log)
    except RuntimeError as error:
        return log, str(error), [each.lineno for each in traceback.extract_tb(error.__traceback__)][1:]
    return log, [each.grad_fn and each.grad_fn.name() for each in results], [each.tolist() for each in results]


@pytest.mark.parametrize("program", [mutate, mutate_a_view, mutate_by_a_leaf, only_read])
@pytest.mark.parametrize("first", INPUTS)
def test_leaves_and_views_in_turns(program, first):
    for second in INPUTS:
        dl.reset()
        compiled = dl.compile(program, backend="eager")
        for name in (first, second, first):
            wanted, found = outcome(program, INPUTS[name]()), outcome(compiled, INPUTS[name]())
            assert found == wanted, f"{name}, in {first}, {second}, {first}"


def test_gradients_of_a_view_are_not_lost():
    compiled = dl.compile(lambda value: value * 2, backend="aot_eager")
    for value in (torch.ones(4), view_without_gradients(), torch.ones(4)):
        assert compiled(value).requires_grad == value.requires_grad


def write_into_a_frozen_leaf(x):
    doubled = x * 2
    x.requires_grad_(False)
    x[:] = doubled
    return x, doubled


def write_into_a_view_of_a_frozen_leaf(x):
    doubled = x * 2
    x.requires_grad_(False)
    x.view(-1).copy_(doubled)
    return x, doubled


def begin_to_require_gradients_after_a_view(x):
    made = x.detach() * 2
    view = made[:2]
    made.requires_grad_()
    return made, view, view * 2


@pytest.mark.parametrize(
    "program",
    [write_into_a_frozen_leaf, write_into_a_view_of_a_frozen_leaf, begin_to_require_gradients_after_a_view],
)
def test_gradients_that_tensors_come_to_require(program):
    compiled = dl.compile(program, backend="eager")
    for _ in range(2):
        facts = []
        for call in (program, compiled):
            x = leaf()
            facts.append([(each.requires_grad, each.is_leaf, each.tolist()) for each in (x, *call(x))])
        assert facts[0] == facts[1]
