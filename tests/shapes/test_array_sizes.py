"""numpy arrays whose sizes change: the sizes are symbolic from the second compilation on, as tensors' are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import dynamo_lite as dl
from equality import Pairing
from programs import Recorder

pytestmark = pytest.mark.on_cpu


def vector(n):
    return np.arange(n, dtype=np.float32)


def matrix(n):
    return np.arange(3 * n, dtype=np.float32).reshape(n, 3)


def turned(n):
    return np.arange(3 * n, dtype=np.float32).reshape(3, n).T


def doubles(n):
    return np.linspace(0, 1, n)


def spread(n):
    return np.arange(2 * n, dtype=np.int64)[::2]


def sweep(fn, *makers, sizes=(3, 4, 5, 8, 6), graphs=2, breaks=0):
    """Compares the result, layout and sharing of each size with eager."""
    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    for size in sizes:
        one, other = ([make(size) for make in makers] for _ in range(2))
        eager, found = fn(*one), compiled(*other)
        Pairing().compare([_told(eager), *one], [_told(found), *other], f"at {size}")
    assert len(recorder.graphs) == graphs, recorder.graphs
    assert dl.counters.graph_breaks == breaks, dict(dl.counters.break_reasons)


def _told(value):
    """Returns an array with all metadata that numpy reports."""
    if isinstance(value, np.ndarray):
        return (
            value.tolist(),
            value.shape,
            value.strides,
            str(value.dtype),
            value.flags.owndata or value.base is not None,
        )
    return tuple(map(_told, value)) if isinstance(value, tuple) else value


PROGRAMS = {
    "from_numpy": (lambda a: torch.from_numpy(a) * 2, vector),
    "as_tensor": (lambda a: torch.as_tensor(a).sum(0) + 1, matrix),
    "a copy": (lambda a: torch.tensor(a) + 1, vector),
    "a copy of another type": (lambda a: torch.tensor(a, dtype=torch.float64), turned),
    "arithmetic": (lambda a: torch.from_numpy(a * 2 + 1).sum(), vector),
    "two of one size": (lambda a, b: torch.from_numpy(a * b).sum(), doubles, doubles),
    "a mean": (lambda a: torch.from_numpy(a - a.mean(0)) * 2, matrix),
    "a transpose": (lambda a: (torch.from_numpy(a.T + 1) * 2, a.T), turned),
    "a reshape": (lambda a: torch.from_numpy(a.reshape(-1)) * 2, matrix),
    "what it says": (lambda a: (torch.from_numpy(a) * 2, a.shape, len(a), a.size, a.nbytes, a.strides), matrix),
    "a slice": (lambda a: torch.from_numpy(a[1:]) * 2, matrix),
    "joined": (lambda a, b: torch.from_numpy(np.concatenate([a, b])) * 2, vector, vector),
    "stacked": (lambda a, b: torch.from_numpy(np.stack([a, b], 1)) * 2, vector, vector),
    "returned": (lambda a: (np.abs(a) + 1, a * 2), vector),
    "numbers of its size": (lambda a: np.arange(a.shape[0]) * a, vector),
    "a choice": (lambda a: np.where(a > 2, a, 0 * a), vector),
    "steps": (lambda a: torch.from_numpy(a) * 2, spread),
    "a tensor's": (lambda x: np.sqrt(x.numpy()) * 2, lambda n: torch.arange(float(n))),
    "beside a tensor": (lambda a, x: x + torch.from_numpy(a), vector, lambda n: torch.ones(n)),
    "a product": (lambda a: torch.from_numpy(a @ a.T), matrix),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_sizes(program):
    fn, *makers = program
    sweep(fn, *makers)


def test_arrays_of_size_one_and_zero():
    sweep(lambda a: torch.from_numpy(a) * 2, vector, sizes=(3, 4, 1, 5, 0, 6, 1, 0), graphs=4)


def test_a_branch_on_the_size():
    sweep(lambda a: torch.from_numpy(a) * 2 if len(a) > 5 else torch.from_numpy(a) + 1, vector, graphs=3)


def test_size_that_the_program_specializes():
    sweep(lambda a: torch.from_numpy(a) * {3: 1, 4: 2, 5: 3, 8: 4, 6: 5}[a.size], vector, graphs=5)


def test_writes_through_a_shared_array():
    def fn(a):
        torch.from_numpy(a).add_(1)
        return torch.from_numpy(a) * 2

    sweep(fn, vector)


def test_backends():
    compiled = dl.compile(lambda a, b: torch.from_numpy(a * b + 1).relu(), backend="aot_eager", dynamic=True)
    for n in (3, 5, 8):
        torch.testing.assert_close(compiled(matrix(n), matrix(n)), torch.from_numpy(matrix(n) ** 2 + 1).relu())
    assert dl.counters.graphs == 1


def test_not_dynamic():
    compiled = dl.compile(lambda a: torch.from_numpy(a) * 2, backend="eager", dynamic=False)
    for n in (3, 4, 5):
        compiled(vector(n))
    assert dl.counters.graphs == 3
