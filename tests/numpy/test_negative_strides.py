"""numpy: arrays with negative strides break the graph, because torch has none."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from arrays import counted
from collector import Programs
from programs import check, compare, observe, recompiling, tensor

np = pytest.importorskip("numpy")
programs = Programs()


@programs(counted(3, 4), graphs=None)
@recompiling
def views_by_index(a):
    b = a[::-1]
    return (
        b,
        a[:, ::-1].copy(),
        b.sum(),
        b[::-1],
        b[1:],
        b[-1, ::-2],
        b[0, 1],
        a[2:0:-1, ::-1],
        a[::-2, None, 1],
        b[..., 0],
    )


@programs(counted(3, 4), graphs=None)
@recompiling
def functions_that_turn(a):
    one = np.flip(a), np.flip(a, 1), np.flip(a[0]), np.flip(a, axis=(0, -1)), np.fliplr(a), np.flipud(a)
    turned = np.rot90(a), np.rot90(a, 2), np.rot90(a, -1) * 2, np.rot90(a, 3, axes=(1, 0)), np.rot90(a, 4)
    return one, turned


@programs(tensor(5), graphs=None)
@recompiling
def a_tensor_turned(x):
    y = x.numpy()[::-1].copy()
    ordered = np.sort(y)[::-1]
    return torch.from_numpy(y) * 2, ordered, np.argsort(y, kind="stable")[::-1][:2], ordered[:3].copy()


@programs(counted(6), graphs=None)
@recompiling
def written_into_backwards(a):
    b = a[::-1]
    b[0] = 50
    a[0] = 10
    b[1:3] += b[0]
    b[:] = a
    c = b[4:]
    c *= 3
    np.multiply(b, 2, out=b)
    b[b > 90] = 7
    b[-1] += 1
    return b, c, a[2]


@programs(counted(4), graphs=None)
@recompiling
def torch_has_no_such_tensors(a):
    seen = []
    for make in (torch.from_numpy, torch.tensor, torch.as_tensor):
        try:
            seen.append(make(a[::-1]))
        except ValueError as error:
            seen.append(str(error))
    return seen, a + 1


@pytest.mark.parametrize("case", programs.parameters())
def test_numpy_flips(case):
    case.run()


def backwards():
    return counted(3, 4)[::-1]


def both_ways():
    return counted(3, 4)[::-1, ::-1]


def columns():
    return counted(4, 3)[:, ::-1].T


def forwards():
    return counted(3, 4)


def with_steps():
    return counted(9, 9)[-2::-3, 1::2]


@pytest.mark.parametrize(("backend", "dynamic"), [("eager", None), ("eager", True), ("aot_eager", None)])
def test_arrays_that_were_given_backwards(backend, dynamic):
    def fn(a):
        a += 1
        b = a[1:]
        b[0] = a[0, ::-1]
        return b * 2, b, a[::-1], a.strides, torch.from_numpy(a.copy())

    dl.reset()
    compiled = dl.compile(fn, backend=backend, dynamic=dynamic)
    for make in (backwards, both_ways, columns, forwards, with_steps, backwards):
        runs = [observe(each, (make(),), {}, lambda: None, False) for each in (fn, compiled)]
        compare(*runs)


@pytest.mark.parametrize("pair", [(lambda a: (a, a[::-1])), (lambda a: (a[:3][::-1], a[2:])), (lambda a: (a[::-1], a))])
def test_arrays_of_one_memory_given_both_ways(pair):
    def fn(x, a, b):
        a[1:] += 1
        b[0] *= 3
        return x + 1, a, b * 2

    compiled = dl.compile(fn, backend="eager")
    for make in (lambda a: (a, counted(3, 4)[::-1]), pair, lambda a: (a, a * 2), pair):
        runs = [observe(each, (tensor(2), *make(counted(5, 4))), {}, lambda: None, False) for each in (fn, compiled)]
        compare(*runs)


def test_a_slice_with_a_negative_step_breaks_by_name():
    check(lambda a: (a + 1)[::-1], counted(3), graphs=1, breaks=1)
    (reason,) = dl.counters.break_reasons
    assert "negative step" in reason
