"""``torch.foreach``, which torch 2.15 added: the operators that optimizers use, for programs."""

from __future__ import annotations

import pytest
import torch

from programs import check, leaf, tensor, with_gradients, without_breaks

pytestmark = pytest.mark.skipif(not hasattr(torch, "foreach"), reason="torch 2.15 added torch.foreach")


def test_function_of_lists():
    def fn(x, y):
        first, second = torch.foreach.mul(torch.foreach.add([x, y], [y, x], alpha=2), 3.0)
        return first + second

    check(with_gradients(without_breaks(fn)), leaf(3), leaf(3))


def test_in_place_function_returns_the_list_that_it_is_given():
    def fn(x, y):
        tensors = [x, y]
        return torch.foreach.sqrt_(tensors) is tensors, torch.foreach.norm(tensors)

    check(without_breaks(fn), tensor(3).abs(), tensor(2, 2).abs())


def test_steps_of_an_optimizer_written_by_hand():
    def step(parameters, gradients):
        torch.foreach.add_(parameters, gradients, alpha=-0.1)
        torch.foreach.addcdiv_(parameters, gradients, torch.foreach.add(torch.foreach.abs(gradients), 1.0), value=0.5)

    check(without_breaks(step), [tensor(3), tensor(2, 2)], [tensor(3), tensor(2, 2)])


def test_wrong_arguments_raise_the_error_of_eager():
    def fn(x):
        try:
            return torch.foreach.add([x], [x, x])
        except RuntimeError as error:
            return str(error)

    check(fn, tensor(3), graphs=None)
