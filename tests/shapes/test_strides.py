"""Slices of growing tensors, whose strides change and sizes don't; lengths computed by a user's class."""

import copy

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import Recorder, tensor
from sweeps import sweep

LENGTHS = (4, 5, 7, 9, 12)


def columns(rows=2, width=1):
    return [(tensor(rows, n)[:, -width:],) for n in LENGTHS]


def test_column_of_a_growing_tensor():
    sweep(lambda x: x * 2 + 1, columns(), graphs=2)
    sweep(lambda x: (x.sum(), x.t() @ x), columns(3, 2), graphs=2)
    sweep(lambda x: x.flatten() + 1, columns(1), graphs=2)


def test_strides_read_by_the_program():
    sweep(lambda x: (x.stride(), x.stride(0) * 2, x.is_contiguous(), x + 1), columns(), graphs=2)


def test_views_of_a_column_and_writes_into_it():
    def fn(x):
        x.add_(1)
        y = x.view(-1, 1, 1)
        y.mul_(2)
        return y + 1, x.reshape(-1) * 2

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder)
    for (one,), (other,) in zip(columns(), columns()):
        assert all(map(torch.equal, fn(one), compiled(other)))
        assert torch.equal(one, other)
    assert len(recorder.graphs) == 2


def test_sizes_and_strides_that_change():
    sweep(lambda x: x + 1, [(tensor(2, n)[:, n // 2 :],) for n in (*LENGTHS, 20)], graphs=2)


def test_changed_layout_is_not_a_symbolic_stride():
    calls = [(tensor(3, 4),), (tensor(4, 3).t(),), (tensor(3, 4),), (tensor(4, 3).t(),)]
    recorder = sweep(lambda x: x + 1, calls, graphs=2)
    for gm in recorder.graphs:
        fake = gm.graph.find_nodes(op="placeholder")[0].meta["example_value"]
        assert all(type(each) is int for each in (*fake.shape, *fake.stride()))


def test_gradients_through_columns():
    x = tensor(3, 1, grad=True)
    recorder = Recorder()
    compiled = dl.compile(lambda x, y: (x * y).sum(), backend=recorder)
    for (y,) in columns(3):
        (eager,) = torch.autograd.grad((x * y).sum(), x)
        (found,) = torch.autograd.grad(compiled(x, y), x)
        assert torch.equal(eager, found)
    assert len(recorder.graphs) == 2


def test_a_compiler_takes_strides():
    fn = lambda x: (x * 2).sum(0) + x.t() @ x  # noqa: E731
    compiled = dl.compile(fn, backend="aot_eager")
    for (x,) in columns(3, 2):
        torch.testing.assert_close(compiled(x), fn(x))


class Cache:
    """Keeps the tensors of earlier tokens."""

    def __init__(self):
        self.held = None

    def __len__(self):
        return 0 if self.held is None else self.held.shape[1]

    def add(self, new):
        self.held = new if self.held is None else torch.cat([self.held, new], 1)
        return self.held


def test_decoding_loop_with_a_growing_cache():
    """The first step, the second and all later ones have one graph each."""
    weight, places = tensor(11, 4), tensor(32, 4, seed=1)

    def step(ids, cache):
        at = len(cache)
        if cache:
            at = len(cache) + 0
        x = weight[ids] + places[at : at + ids.shape[1]]
        return (x @ cache.add(x).mT).softmax(-1).sum(-1, keepdim=True) @ weight.sum(0)[None] @ weight.t()

    def decode(step):
        ids, cache, found = torch.tensor([[1, 2, 3], [4, 5, 6]]), Cache(), []
        for _ in range(8):
            found.append(step(ids if cache.held is None else ids[:, -1:], cache))
            ids = torch.cat([ids, found[-1][:, -1:].argmax(-1)], 1)
        return ids, found, len(cache)

    recorder = Recorder()
    compiled = decode(dl.compile(step, backend=recorder))
    torch.testing.assert_close(compiled, decode(step))
    assert len(recorder.graphs) == 3


class Sized:
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count


def test_lengths_of_a_user_class():
    def fn(x):
        sized = Sized(x.shape[0] - 3)
        try:
            length = len(sized)
        except ValueError as error:
            length = str(error)
        return x + 1, length, bool(sized) if x.shape[0] > 3 else None

    sweep(fn, [(tensor(n, 2),) for n in (5, 6, 7, 9)], graphs=2)
    sweep(fn, [(tensor(n, 2),) for n in (2, 3, 4)], graphs=3)
    sweep(lambda x: x.sum() * len(Sized(x.shape[0] * 2)), [(tensor(n),) for n in (4, 5, 7, 9)], graphs=2)


@pytest.mark.parametrize("dynamic", [None, True])
def test_views_of_leaves_within_the_memory_of_their_base(dynamic):
    """Under no_grad torch compares a view with the size of its base."""

    def fn(x):
        return x.expand([-1, 2, -1, -1])

    recorder = Recorder()
    compiled = dl.compile(fn, backend=recorder, dynamic=dynamic)
    found = [torch.nn.Parameter(tensor(1, n, m)).unsqueeze(1) for n, m in ((6, 4), (3, 4), (3, 8), (5, 7))]
    with torch.no_grad():
        for each in (*found, tensor(1, 1, 5, 3), found[0]):
            assert torch.equal(compiled(each), fn(each))
    assert len(recorder.graphs) <= 4


def test_operators_on_parameters_under_no_grad():
    """With symbolic sizes torch's ``pad`` and ``repeat`` create results of their argument's class."""

    def fn(w, x):
        with torch.no_grad():
            made = torch.zeros(2, requires_grad=True)
            return F.pad(w, (1, 1)), w.repeat(0, 1), F.pad(x * 1, (0, 2)), w + 1, made * 2

    compiled = dl.compile(fn, backend="eager", dynamic=True)
    for size in (3, 4):
        w, x = torch.nn.Parameter(tensor(2, size)), tensor(2, size)
        for one, other in zip(compiled(w, x), fn(w, x)):
            assert torch.equal(one, other) and one.requires_grad is other.requires_grad


@pytest.mark.parametrize("dynamic", [None, True])
def test_copies_of_views_of_the_size_of_their_base(dynamic):
    """torch's ``__deepcopy__`` compares the sizes, which then are one symbol: that of the base."""

    def fn(x):
        made = copy.deepcopy(x)
        return made + torch.arange(x.shape[0]), torch.zeros(x.shape[0] + 1), made.view(-1, 1)

    compiled = dl.compile(fn, backend="eager", dynamic=dynamic)
    found = [torch.arange(1.0, n + 1).reshape(n) for n in (3, 4, 5)]
    for each in (*found, torch.ones(6), torch.ones(8)[:5], torch.ones(2, 5)[1], found[0]):
        for one, other in zip(compiled(each), fn(each)):
            assert torch.equal(one, other) and one.shape == other.shape
