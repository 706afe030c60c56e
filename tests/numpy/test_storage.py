"""Tensors made from numpy arrays: their storage, views and version counters."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

import dynamo_lite as dl

np = pytest.importorskip("numpy")


def _seen(result, array):
    """Returns all that a program can observe of the storage of the tensors in a result."""
    leaves = tree_leaves(result)
    tensors = [each for each in leaves if isinstance(each, torch.Tensor)]
    facts = [
        (each.storage_offset(), each.untyped_storage().nbytes(), each.stride(), each._version, each.tolist())
        for each in tensors
    ]
    pairs = [
        (one.untyped_storage()._cdata == other.untyped_storage()._cdata, np.shares_memory(*map(_array, (one, other))))
        for one in tensors
        for other in tensors
    ]
    bases = [[one._base is other for other in (None, *tensors)] for one in tensors]
    resizable = [each.untyped_storage().resizable() for each in tensors]
    shared = [np.shares_memory(_array(each), array) for each in tensors]
    arrays = [each.tolist() for each in leaves if isinstance(each, np.ndarray)]
    return facts, pairs, bases, resizable, shared, arrays, array.tolist()


def _array(tensor):
    return tensor.detach().numpy()


def _hold(program, graphs, breaks, backend="eager", dynamic=None):
    dl.reset()
    compiled = dl.compile(program, backend=backend, dynamic=dynamic)
    for call in range(2):
        given = [np.arange(12.0).reshape(4, 3) for _ in range(2)]
        before = dl.counters.graphs, dl.counters.graph_breaks
        assert _seen(program(given[0]), given[0]) == _seen(compiled(given[1]), given[1])
        found = dl.counters.graphs - before[0], dl.counters.graph_breaks - before[1]
        assert found == ((graphs, breaks) if call == 0 else (0, 0))


def _views(a):
    t = torch.from_numpy(a[1:])
    x, _, z = t
    return t, x, z, t.split(2)[1], t.chunk(2), t.T, t[None], t.view(-1), t.detach()


def _written(a):
    t = torch.from_numpy(a[1:])
    t.add_(1)
    return t, t * 2, t[1:], a


def _written_made(a):
    b = a + 1
    t, s = torch.from_numpy(b[1:]), torch.from_numpy(b)
    t.mul_(2)
    v = t[1]
    v.add_(1)
    return t, s, v, b


def _no_grad(a):
    with torch.no_grad():
        t = torch.from_numpy(a[1:])
        return t, t[1:]


def _over_a_break(a):
    t = torch.from_numpy(a[1:])
    v, y = t[1:], t * 2
    dl.graph_break()
    return y, t, v, t + 1


def _and_back(a):
    n = torch.from_numpy(a[1:]).numpy()
    return torch.from_numpy(n[1:]), torch.from_numpy(n), n


WHOLE = {
    "a part": lambda a: torch.from_numpy(a[1:]),
    "a part of one made inside": lambda a: torch.from_numpy((a + 1)[1:]),
    "one made inside": lambda a: torch.from_numpy(a + 1),
    "a column, every second row, a reshape": lambda a: [
        torch.from_numpy(each) for each in (a[:, 1], a[::2], a.reshape(-1)[2:], a.T)
    ],
    "by other names": lambda a: (torch.as_tensor(a[1:]), torch.asarray(a[2:]), torch.as_tensor(a)),
    "two of one": lambda a: (torch.from_numpy(a[1:]), torch.from_numpy(a[1:]), torch.from_numpy(a)),
    "of a tensor's memory": lambda a: torch.from_numpy(torch.arange(12.0).numpy()[1:]),
    "where it begins": lambda a: torch.from_numpy(a[1:])[1:] + torch.from_numpy(a[2:])[1:].storage_offset(),
    "views": _views,
    "written": _written,
    "written, made inside": _written_made,
    "without gradients": _no_grad,
    "back and forth": _and_back,
}


@pytest.mark.parametrize(("backend", "dynamic"), [("eager", None), ("aot_eager", True)])
@pytest.mark.parametrize("name", WHOLE)
def test_storage_begins_where_the_array_does(name, backend, dynamic):
    _hold(WHOLE[name], 1, 0, backend, dynamic)


def test_storage_over_a_break():
    _hold(_over_a_break, 2, 1)


def _given_data(a):
    x = torch.zeros(3, 3, dtype=torch.float64)
    x.data = torch.from_numpy(a[1:])
    return x, x + 1


def _set(a):
    x = torch.zeros(3, 3, dtype=torch.float64)
    x.set_(torch.from_numpy(a[1:]))
    return x, x + 1


def _reshaped(a):
    t = torch.from_numpy(a[1:])
    t.t_()
    return t, t + 1


def _with_gradients(a):
    t = torch.from_numpy(a[1:])
    t.mul_(torch.ones(3, 3, dtype=torch.float64, requires_grad=True))
    return t


BROKEN = {
    "as_strided": lambda a: torch.from_numpy(a[1:]).as_strided((2,), (1,), 1) + 1,
    "other types of items": lambda a: torch.from_numpy(a[1:]).view(torch.int64),
    "parameters": lambda a: torch.nn.Parameter(torch.from_numpy(a[1:]) * 1),
    "data": _given_data,
    "set_": _set,
    "reshaped": _reshaped,
    "gradients": _with_gradients,
}


@pytest.mark.parametrize("program", BROKEN.values(), ids=BROKEN)
def test_query_of_an_arrays_storage(program):
    dl.reset()
    compiled = dl.compile(program, backend="eager")
    for _ in range(2):
        given = [np.arange(12.0).reshape(4, 3) for _ in range(2)]
        assert _seen(program(given[0]), given[0]) == _seen(compiled(given[1]), given[1])


def test_storage_that_can_not_grow():
    def program(a):
        return torch.from_numpy(a + 1).resize_(100)

    with pytest.raises(RuntimeError, match="not resizable"):
        dl.compile(program, backend="eager")(np.arange(3.0))


def test_storage_of_results_of_an_exported_program():
    def program(a):
        t = torch.from_numpy(a[1:])
        t.add_(1)
        return t, torch.from_numpy(a + 1)[1:]

    graph_module, _ = dl.export(program, np.arange(12.0).reshape(4, 3))
    given = [np.arange(12.0).reshape(4, 3) for _ in range(2)]
    assert _seen(program(given[0]), given[0]) == _seen(graph_module(given[1]), given[1])
