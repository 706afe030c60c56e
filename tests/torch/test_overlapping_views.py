"""Writes into views whose items share memory, and into parts of these, also by backends that functionalize."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, compiled_by, leaf, tensor, with_gradients

BACKENDS = ("eager", "aot_eager")
VIEWS = {
    "unfold": lambda x: x.unfold(0, 2, 1),
    "as_strided": lambda x: x.as_strided((3, 2), (1, 1)),
    "expand": lambda x: x.expand(3, 4),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, torch.zeros(3, 4))[0],
}
PARTS = {
    "row": lambda view: view.__setitem__(0, 5.0),
    "item": lambda view: view.__setitem__((0, 1), 5.0),
    "tensor": lambda view: view.__setitem__(0, torch.arange(view.shape[1]) * 2.0),
    "in place": lambda view: view[1].mul_(3),
    "column": lambda view: view.select(1, 1).narrow(0, 0, 1).add_(2),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_write_into_a_part_of_an_overlapping_view(view, part, backend):
    def of_argument(x):
        part(view(x))
        return x * 2

    def of_created(x):
        y = x + 1
        seen = view(y)
        part(seen)
        return y, seen * 2

    check(compiled_by(backend)(of_argument), tensor(4))
    check(compiled_by(backend)(of_created), tensor(4))
    check(compiled_by(backend)(with_gradients(of_created)), leaf(4))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("view", [VIEWS["unfold"], VIEWS["as_strided"]], ids=["unfold", "as_strided"])
def test_write_into_a_whole_overlapping_view(view, backend):
    def of_created(x):
        y = x.clone()
        view(y).mul_(3)
        return y

    def of_argument(seen):
        seen.mul_(3)
        return seen + 1

    check(compiled_by(backend)(of_created), tensor(4), graphs=None, breaks=1)
    check(compiled_by(backend)(lambda x: of_argument(view(x))), tensor(4), graphs=2, breaks=None)

    eager, compiled = view(torch.arange(4.0)), view(torch.arange(4.0))
    assert torch.equal(of_argument(eager), dl.compile(of_argument, backend=backend)(compiled))
    assert torch.equal(eager, compiled)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("write", [lambda x: x.add_(1), lambda x: x.data.add_(1)], ids=["in place", "data"])
def test_write_into_the_one_window_of_a_view(write, backend):
    def fn(x):
        y = x + 1
        seen = y.unfold(0, 2, 1)
        write(seen)
        return y, seen

    check(compiled_by(backend)(fn), tensor(2, 2), graphs=None)


def test_offsets_of_arguments_differ_from_call_to_call():
    def fn(x):
        x.expand(2, 2)[0].add_(1)
        return x * 2

    compiled = dl.compile(fn, backend="aot_eager")
    for begin in (0, 3, 1):
        eager, given = torch.arange(6.0), torch.arange(6.0)
        expected = fn(eager[begin : begin + 2])
        assert torch.equal(expected, compiled(given[begin : begin + 2]))
        assert torch.equal(eager, given)


@checked(tensor(1, 4), graphs=None, breaks=1)
@compiled_by("aot_eager")
def test_write_by_a_mask_into_an_expanded_tensor(x):
    y = (x + 1).expand(3, 4)
    try:
        y[y > 1] = 3.0
    except RuntimeError as error:
        return y * 2, str(error)
    return y * 2


@checked(leaf(1, 4), graphs=None, breaks=None)
@compiled_by("aot_eager")
@with_gradients
def test_write_into_an_expanded_tensor_without_history(x):
    y = x * 2
    y.detach().expand(3, 4)[0].zero_()
    return y + 1
