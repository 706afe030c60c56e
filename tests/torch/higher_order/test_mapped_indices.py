"""Tensors without dimensions as indices, in functions under ``vmap``: those that are mapped over stay tensors."""

from __future__ import annotations

import pytest
import torch
from torch.func import grad, jacrev, vmap

import dynamo_lite as dl
from programs import Program, check, tensor

PLACES = torch.tensor([0, 3, 1])
BACKENDS = pytest.mark.parametrize("backend", [None, "aot_eager"])

READS = {
    "of a tensor from outside": lambda x, at: vmap(lambda i: x[0, i])(at),
    "of a row": lambda x, at: vmap(lambda row, i: row[i])(x, at),
    "after a slice": lambda x, at: vmap(lambda row, i: row[1:3, i])(x, at),
    "after a number": lambda x, at: vmap(lambda row, i: row[1, i])(x, at),
    "after an ellipsis": lambda x, at: vmap(lambda row, i: row[..., i])(x, at),
    "after a new dimension": lambda x, at: vmap(lambda row, i: row[None, i, :2])(x, at),
    "two of them": lambda x, at: vmap(lambda row, i: row[i, i - 1])(x, at),
    "with a list": lambda x, at: vmap(lambda row, i: row[i, torch.tensor([0, 1])])(x, at),
    "of 32 bits": lambda x, at: vmap(lambda row, i: row[i])(x, at.int()),
    "computed from the row": lambda x, at: vmap(lambda row: row[row.argmax() // 4])(x),
    "of an inner vmap": lambda x, at: vmap(lambda row: vmap(lambda i: row[i])(at))(x),
    "of an outer vmap": lambda x, at: vmap(lambda i: vmap(lambda row: row[i])(x))(at),
    "in a jacobian": lambda x, at: jacrev(lambda y: vmap(lambda i: y[0, i])(at))(x),
}


@BACKENDS
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("fn", READS.values(), ids=list(READS))
def test_read_at_a_mapped_index(fn, gradients, backend):
    check(Program(fn, has_gradients=gradients, backend=backend), tensor(3, 4, 4, grad=gradients), PLACES)


def written(row, at, value):
    row = row.clone()
    row[at] = value
    row[1, at] += 2
    return row


@BACKENDS
@pytest.mark.parametrize("gradients", [False, True])
def test_write_at_a_mapped_index(gradients, backend):
    def fn(x, at):
        return vmap(lambda row, i: written(row, i, 5))(x, at), vmap(lambda row, i: written(row, i, row[0] * 2))(x, at)

    check(Program(fn, has_gradients=gradients, backend=backend), tensor(3, 4, 4, grad=gradients), PLACES)


def test_index_out_of_range():
    def fn(x, at):
        try:
            return vmap(lambda row, i: row[i])(x, at)
        except IndexError as error:
            return str(error)

    check(fn, tensor(3, 4), PLACES, others=[(tensor(3, 4), PLACES + 4)], graphs=(0, 1))


@pytest.mark.parametrize("fn", [lambda x, i: vmap(lambda row: row[i])(x), lambda x, i: grad(lambda y: y[0, i])(x)])
def test_index_that_is_not_mapped_over(fn):
    check(fn, tensor(3, 4), torch.tensor(1), graphs=None)
    assert [each.reason.code for each in dl.explain(fn)(tensor(3, 4), torch.tensor(1)).breaks] == ["DL0307"]


def test_index_that_another_transform_wraps():
    check(lambda x, at: vmap(grad(lambda row, i: row[i] ** 2))(x, at), tensor(3, 4), PLACES, graphs=None)
