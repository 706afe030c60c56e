"""Parameters whose `.data` become parts of another tensor, which breaks the graph, or are replaced late."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, prune, vector_to_parameters

import dynamo_lite as dl
from programs import Recorder, check, tensor
from weights import seeded

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def net():
    return seeded(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))


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
    lookup, found = dl.lookup_backend(backend), []
    for compiled in (False, True):
        recorder, model = Recorder(), net()

        def record(gm, inputs, recorder=recorder):
            recorder(gm, inputs)
            return lookup(gm, inputs)

        run = dl.compile(program, backend=record) if compiled else program
        rows = []
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


@BACKENDS
def test_there_and_back(backend):
    @torch.no_grad()
    def fn(model, x):
        vector = parameters_to_vector(model.parameters())
        noise = torch.linspace(-1, 1, vector.numel())
        vector_to_parameters(vector + noise, model.parameters())
        up = model(x)
        vector_to_parameters(vector - noise, model.parameters())
        down = model(x)
        vector_to_parameters(vector, model.parameters())
        return up - down

    beside_eager(fn, backend, graphs=7)


@BACKENDS
@pytest.mark.parametrize("last", ["returned", "written", "kept", "parameter"])
def test_the_vector_lives_on(backend, last):
    kept = [None]

    @torch.no_grad()
    def fn(model, x):
        vector = parameters_to_vector(model.parameters()) * 2
        vector_to_parameters(vector, model.parameters())
        if last == "written":
            vector.add_(1)
        if last == "parameter":
            model[2].bias.mul_(2)
            return model(x) * vector.sum()
        if last == "kept":
            kept[0] = vector[:3]
        return vector if last == "returned" else model(x)

    same_results(fn, backend)


def same_results(fn, backend):
    results = []
    for program in (fn, dl.compile(fn, backend=backend)):
        model = net()
        results.append([(program(model, tensor(5, 3)).clone(), facts(model)) for _ in range(3)])
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


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

    check(fn, tensor(3, seed=1), tensor(1, 3, seed=2), tensor(2, 3), graphs=2, breaks=1)
    (broken,) = dl.explain(fn)(tensor(3, seed=1), tensor(1, 3, seed=2), tensor(2, 3)).breaks
    assert "its new data are a part of another tensor" in broken.reason.what()


def test_parts_of_an_input():
    def fn(p, q, flat):
        p.data, q.data = flat[:3], flat[3:]
        return p + q

    check(fn, tensor(3, seed=1), tensor(2, seed=2).sum(), tensor(4), graphs=None)
    with pytest.raises(dl.exc.Unsupported, match="its new data are a part of another tensor"):
        dl.compile(fn, backend="eager", fullgraph=True)(tensor(3, seed=1), tensor(1), tensor(4))


def test_interleaved_parts():
    def fn(p, q, x):
        y = x * 2
        p.data, q.data = y[:, 0], y[:, 1]
        return p + q

    check(fn, tensor(3, seed=1), tensor(3, seed=2), tensor(3, 2), graphs=None)


@BACKENDS
def test_prune_and_make_it_permanent(backend):
    def fn(model, x):
        if not prune.is_pruned(model[0]):
            prune.l1_unstructured(model[0], "weight", amount=0.5)
        prune.remove(model[0], "weight")
        return model(x)

    lookup, results = dl.lookup_backend(backend), []
    for program in (fn, dl.compile(fn, backend=lookup, fullgraph=True)):
        model = net()
        program(model, tensor(5, 3)).sum().backward()
        results.append({name: (each.detach(), each.grad) for name, each in model.named_parameters()})
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    assert (results[1]["0.weight"][0] == 0).sum() == 6


@BACKENDS
def test_what_was_computed_before_is_detached(backend):
    def fn(model, x):
        before = model(x)
        for each in model.parameters():
            each.data = each.data * 0.5
        assert before.requires_grad and not before.is_leaf
        return model(x) + before.detach()

    beside_eager(fn, backend, graphs=1)


def test_what_was_computed_before_leaves():
    def fn(model, x):
        before = model(x)
        for each in model.parameters():
            each.data = each.data * 0.5
        return before + model(x)

    same_gradients(fn)


def test_what_was_computed_before_is_written_to_an_input():
    def fn(model, x):
        model.total = torch.zeros(5, 4)
        model.total.add_(model[0](x))
        model[0].weight.data = model[0].weight.data * 0.5
        return model(x)

    same_gradients(fn, lambda model: model.total)


def test_differentiated_after():
    def fn(model, x):
        before = model(x).sum()
        parameters = [*model.parameters()]
        for each in parameters:
            each.data = each.data * 0.5
        return torch.cat([each.flatten() for each in torch.autograd.grad(before, parameters)])

    same_gradients(fn)


def test_hook_after():
    def fn(model, x):
        before = model(x)
        model[0].weight.data = model[0].weight.data * 2
        before.register_hook(lambda gradient: gradient * 2)
        return model(x)

    same_gradients(fn)


def same_gradients(fn, also=lambda model: None):
    rows = []
    for program in (fn, dl.compile(fn, backend="eager")):
        model = net()
        for _ in range(2):
            result = program(model, tensor(5, 3))
            if result.requires_grad:
                result.sum().backward(retain_graph=True)
            extra = also(model)
            if extra is not None:
                extra.sum().backward()
            rows.append((result.detach(), facts(model), None if extra is None else extra.detach()))
    torch.testing.assert_close(rows[2:], rows[:2], rtol=0, atol=0)
