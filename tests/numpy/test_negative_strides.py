"""numpy: arrays with negative strides. Torch has none: the graph breaks there, and what others compute stays right."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, compare, observe, tensor
from table import Table

np = pytest.importorskip("numpy")
programs = Table()


def counted(*shape, dtype="float64"):
    return np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


@programs(counted(3, 4), graphs=None, recompiles=True)
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


@programs(counted(3, 4), graphs=None, recompiles=True)
def functions_that_turn(a):
    one = np.flip(a), np.flip(a, 1), np.flip(a[0]), np.flip(a, axis=(0, -1)), np.fliplr(a), np.flipud(a)
    turned = np.rot90(a), np.rot90(a, 2), np.rot90(a, -1) * 2, np.rot90(a, 3, axes=(1, 0)), np.rot90(a, 4)
    return one, turned


@programs(tensor(5), graphs=None, recompiles=True)
def a_tensor_turned(x):
    y = x.numpy()[::-1].copy()
    ordered = np.sort(y)[::-1]
    return torch.from_numpy(y) * 2, ordered, np.argsort(y, kind="stable")[::-1][:2], ordered[:3].copy()


@programs(counted(4, 4), graphs=None, recompiles=True)
def computing_with_views(a):
    b, c = a[::-1], a[:, ::-1]
    found = b + c, np.where(b > 3, a, c), np.concatenate([b, c]), b @ c, b.mean(0), np.cumsum(b, axis=1), -c, b == c
    return found, b[[0, 2]], np.maximum(b, 3.0), b.astype("float32"), b.ravel(), b.copy(), np.zeros_like(c)


@programs(counted(3, 4), graphs=None, recompiles=True)
def views_of_views(a):
    b = a[::-1]
    seen = [row * 2 for row in b] + [item for item in a[0, ::-1]]
    turned = b.T, b.swapaxes(0, 1), b.reshape(3, 2, 2), b[:, None], np.squeeze(a[None, ::-1]), np.atleast_2d(b[0])
    return seen, turned, b.strides, b.T.strides, b.shape, len(b)


@programs(counted(6), graphs=None, recompiles=True)
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


@programs(counted(3, 4), graphs=None, recompiles=True)
def written_into_by_index(a):
    a[::-1] = a * 2
    a[:, ::-1] += a
    a[::-1][0] = 4
    a[1, ::-1][:2] = a[0, 2:]
    a[2:0:-1, ::2] = 9
    b = a[::-1]
    b.sort()
    b[1:].fill(5)
    np.copyto(a[0, ::-1], b[2])
    return b, a.sum()


@programs(counted(4), graphs=None, recompiles=True)
def torch_has_no_such_tensors(a):
    seen = []
    for make in (torch.from_numpy, torch.tensor, torch.as_tensor):
        try:
            seen.append(make(a[::-1]))
        except ValueError as error:
            seen.append(str(error))
    return seen, a + 1


@programs(counted(3, 1), graphs=None, recompiles=True)
def of_one_item_and_of_none(a):
    b = a[:, ::-1]
    seen = [b.shape, a[::-1][3:].shape, a[0:0, ::-1] + 1, b[::-1]]
    for each in (b, a[:0, ::-1], a[::-1][:1, 0]):
        try:
            seen.append(torch.from_numpy(each) + 1)
        except ValueError as error:
            seen.append(str(error))
    return seen


@programs(counted(3, 4), graphs=None, recompiles=True)
def what_does_not_fit(a):
    seen = []
    for index in ((slice(None, None, -1), 9), (slice(None, None, -1),) * 3, (slice(None, None, 0),), (..., ...)):
        try:
            seen.append(a[::-1][index])
        except (IndexError, ValueError) as error:
            seen.append(str(error))
    for axis in (5, (0, 0)):
        try:
            seen.append(np.flip(a, axis))
        except ValueError as error:
            seen.append(type(error).__name__)
    return seen


@pytest.mark.parametrize("case", programs.parameters())
def test_numpy_flips(case):
    case.run()


def test_views_of_other_sizes():
    def fn(a):
        b = a[::-1]
        return b[1:3] * 2, b[:2], a[:2][::-1], a[-2:], b.sum(), b, a[3:1:-1], b[: len(b) - 1]

    check(fn, counted(4), others=[(counted(size),) for size in (5, 6, 9, 20)], recompiles=True, graphs=None)


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


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("dynamic", [None, True, False])
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
    def fn(a):
        return (a + 1)[::-1]

    check(fn, counted(3), graphs=1, breaks=1)
    (reason,) = dl.counters.break_reasons
    assert "negative step" in reason


@pytest.mark.parametrize("copied", [lambda a: np.ascontiguousarray(a[::-1]), lambda a: np.flip(a).copy()])
def test_a_copy_made_outside_is_captured(copied):
    check(lambda a: (a * 2, a[1:]), copied(counted(4)), fullgraph=True)
