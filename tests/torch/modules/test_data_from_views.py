"""Parameters whose `.data` become a part of another tensor, which breaks the graph, or are replaced late."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import dynamo_lite as dl
from programs import Recorder, check, tensor
from training_checks import mlp, trained

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def facts(model):
    """What parameters have, and where."""
    one = next(iter(model.parameters()))
    storage = one.untyped_storage()
    return [
        (each.detach().clone(), each.grad, each.requires_grad, each.storage_offset(), each.stride())
        + (each.untyped_storage()._cdata == storage._cdata, storage.nbytes())
        for each in model.parameters()
    ]


def beside_eager(program, backend, graphs, calls=3):
    """Run on a model of its own each, with the backward; hold the parameters and where they are against each other."""
    found, recorder = [], Recorder(backend)
    for run in (program, dl.compile(program, backend=recorder)):
        model, rows = mlp(), []
        for index in range(calls):
            result = run(model, tensor(5, 3, seed=index))
            if result.requires_grad:
                result.sum().backward()
            rows.append((result.detach(), facts(model)))
        found.append(rows)
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
    assert len(recorder.graphs) == graphs


@BACKENDS
@pytest.mark.parametrize("grads", [True, False])
def test_vector_to_parameters(backend, grads):
    def fn(model, x):
        with torch.set_grad_enabled(grads):
            vector = parameters_to_vector(model.parameters())
            vector_to_parameters(vector * 0.9 + 0.01, model.parameters())
        return model(x)

    beside_eager(fn, backend, graphs=5)


@pytest.mark.parametrize(
    "parts", [((0, 2), (2, 5)), ((2, 5), (0, 2)), ((0, 2), (3, 5)), ((0, 3), (2, 5)), ((0, 5), (1, 3))]
)
def test_which_parts(parts):
    def fn(p, q, x):
        y = x * 2
        p.data = y[slice(*parts[0])]
        q.data = y[slice(*parts[1])]
        return p.sum() * q.sum()

    recorder = Recorder()
    rows = []
    for program in (fn, dl.compile(fn, backend=recorder)):
        for _ in range(2):
            p, q = tensor(2, seed=1, grad=True), tensor(2, seed=2, grad=True)
            result = program(p, q, tensor(5))
            result.backward()
            places = [each.storage_offset() for each in (p, q)]
            rows.append((result.detach(), p.detach(), q.detach(), p.grad, q.grad, places, p.as_strided((5,), (1,), 0)))
    torch.testing.assert_close(rows[2:], rows[:2], rtol=0, atol=0)
    assert len(recorder.graphs) > 1


def test_parts_of_a_matrix():
    def fn(p, q, x):
        y = x * 2
        p.data, q.data = y[0], y[1].view(1, 3)
        return p + q

    check(fn, tensor(3, seed=1), tensor(1, 3, seed=2), tensor(2, 3), graphs=2, breaks=2)
    for broken in dl.explain(fn)(tensor(3, seed=1), tensor(1, 3, seed=2), tensor(2, 3)).breaks:
        assert "is replaced" in broken.reason.what()


@BACKENDS
def test_what_was_computed_before_is_detached(backend):
    def fn(model, x):
        before = model(x)
        for each in model.parameters():
            each.data = each.data * 0.5
        assert before.requires_grad and not before.is_leaf
        return model(x) + before.detach()

    beside_eager(fn, backend, graphs=1)


@trained(backend="eager", graphs=None, breaks=None, rtol=0, atol=0)
def test_hook_after(wrap):
    def fn(model, x):
        before = model(x)
        model[0].weight.data = model[0].weight.data * 2
        before.register_hook(lambda gradient: gradient * 2)
        return model(x)

    model, run, rows = mlp(), wrap(fn), []
    for _ in range(2):
        result = run(model, tensor(5, 3))
        result.sum().backward()
        rows.append((result.detach(), facts(model)))
    return rows
