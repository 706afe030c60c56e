"""Writes that no version counter shows: into inference tensors, and into the statistics of batch norm."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import check, checked, tensor


@checked(tensor(6, 4), graphs=2, breaks=1)
@torch.inference_mode()
def test_views_of_one_inference_tensor_after_a_break(x):
    q, k, v = (x + 1).chunk(3)
    dl.graph_break()
    return F.scaled_dot_product_attention(q[None], torch.cat([k, q])[None], torch.cat([v, q])[None])


@checked(tensor(6), graphs=2, breaks=3)
@torch.inference_mode()
def test_a_write_through_one_of_two_views_after_a_break(x):
    y = x + 1
    one, all_ = y[:3], y.view(2, 3)
    dl.graph_break()
    one.add_(1)
    return all_ * 2, one


def inference_tensor(value):
    with torch.inference_mode():
        return torch.full((4,), float(value))


def written(name):
    operations = {
        "add_": lambda x, other: x.add_(other),
        "setitem": lambda x, other: x.__setitem__(0, other[0]),
        "out": lambda x, other: torch.add(x, other, out=x),
        "foreach": lambda x, other: torch._foreach_add_([x], [other]),
        "view": lambda x, other: x.view(2, 2)[0].copy_(other[:2]),
        "clamp": lambda x, other: F.hardtanh(x, 0, 1, inplace=True),
    }
    operation = operations[name]

    @torch.inference_mode()
    def fn(x, other):
        before = x.clone()
        operation(x, other)
        return before, x + other, x

    return fn


@pytest.mark.parametrize("name", ["add_", "setitem", "out", "foreach", "view", "clamp"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_into_inference_tensors_are_seen(name, backend):
    """AOTAutograd refuses them in inference mode that the graph enters itself."""
    fn = written(name)
    compiled = dl.compile(fn, backend=backend, fullgraph=backend == "eager")
    for value in (3.0, 5.0):
        mine, theirs, other = inference_tensor(value), inference_tensor(value), inference_tensor(2.0)
        assert all(map(torch.equal, compiled(mine, other), fn(theirs, other)))
        assert torch.equal(mine, theirs)
    assert dl.counters.graph_breaks == (backend != "eager")
    with torch.inference_mode():
        assert all(map(torch.equal, dl.compile(fn, backend=backend, fullgraph=True)(mine, other), fn(theirs, other)))
    shared, again = inference_tensor(3.0), inference_tensor(3.0)
    assert all(map(torch.equal, compiled(shared, shared), fn(again, again)))


@pytest.mark.parametrize("write", [lambda x: x.zero_(), lambda x: x.view(-1)[1:3].mul_(2)])
def test_a_write_into_an_inference_tensor_outside_of_inference_mode(write):
    compiled = dl.compile(lambda x: (write(x), x + 1), backend="eager")
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        compiled(inference_tensor(3))


SAME = {
    "dropout": lambda x: F.dropout(x, 0.5, False),
    "a module": torch.nn.Dropout(0.5).eval(),
    "contiguous": lambda x: x.contiguous(),
    "float": lambda x: x.float(),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", SAME)
def test_operators_that_return_their_argument(name, backend):
    """By torch's kernel in C++; one in Python, which fakes run in inference mode, copies in dropout's place."""

    @torch.inference_mode()
    def fn(x):
        y = SAME[name](x)
        is_same = y is x
        y.add_(1)
        return is_same, x * 1

    is_same, doubled = dl.compile(fn, backend=backend, fullgraph=True)(torch.ones(3))
    assert is_same and torch.equal(doubled, torch.full((3,), 2.0))


NORMS = {
    "batch_norm": lambda x, mean, var: F.batch_norm(x, mean, var, training=True),
    "torch.batch_norm": lambda x, mean, var: torch.batch_norm(x, None, None, mean, var, True, 0.1, 1e-5, False),
    "instance_norm": lambda x, mean, var: F.instance_norm(x[..., None].expand(-1, -1, 4), mean, var)[..., 0],
    "in inference mode": torch.inference_mode()(lambda x, mean, var: F.batch_norm(x, mean, var, training=True)),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("is_caught", [True, False])
def test_a_graph_that_fails_updates_statistics_once(name, is_caught):
    norm = NORMS[name]

    def fails(x, mean, var, index):
        y = norm(x, mean, var)
        return y.index_select(0, index)

    def catches(x, mean, var, index):
        try:
            return fails(x, mean, var, index)
        except IndexError:
            return "failed"

    fn = catches if is_caught else fails
    found = []
    for call in (fn, dl.compile(fn, backend="eager")):
        mean, var, x = torch.zeros(3), torch.ones(3), torch.arange(12.0).view(4, 3)
        call(x, mean, var, torch.tensor([0]))
        try:
            call(x, mean, var, torch.tensor([9]))
        except IndexError:
            assert not is_caught
        found.append((mean, var))
    assert all(map(torch.equal, *found))


@checked(tensor(4, 3), torch.zeros(3), torch.ones(3))
def test_statistics_that_are_only_read(x, mean, var):
    return F.batch_norm(x, mean, var) + mean


def test_statistics_that_share_memory_with_another_input():
    """The graph would have two inputs, of which one is written to."""

    def fn(x, mean, var, others):
        return F.batch_norm(x, mean, var, training=True), others * 2

    both = torch.zeros(2, 3)
    check(fn, tensor(4, 3), both[0], torch.ones(3), both, graphs=None)


def in_a_part_of_the_graph(x):
    y = x.sin()
    with torch.inference_mode():
        y = y[1:] * 2
    return y.cos()


PROGRAMS = {
    "view": lambda x: x.view(2, 2) * 2,
    "write": lambda x: x.mul_(2) + 1,
    "write and view": lambda x: x.mul_(2).view(2, 2) + 1,
    "write through a view": lambda x: (x[0].mul_(2), x + 1),
    "in a part": in_a_part_of_the_graph,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_inputs_in_inference_mode_that_the_graph_enters(name, backend):
    """AOTAutograd can't view an input in inference mode that the graph enters."""
    fn = PROGRAMS[name] if name == "in a part" else torch.inference_mode()(PROGRAMS[name])
    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    for requires_grad in (False, True):
        given, same = torch.arange(4.0), torch.arange(4.0)
        if requires_grad and "write" not in name:
            given.requires_grad_(), same.requires_grad_()
        found, wanted = compiled(given), fn(same)
        for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, wanted))):
            torch.testing.assert_close(one.clone(), other.clone())
            assert not one.requires_grad
        assert torch.equal(given, same)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_operator_that_may_fail_in_inference_mode(backend):
    """AOTAutograd keeps its order by a higher-order operator, which has no schema."""
    compiled = dl.compile(torch.linalg.cholesky, backend=backend, fullgraph=True)
    x = torch.eye(4) * 4
    with torch.inference_mode():
        assert torch.equal(compiled(x), torch.eye(4) * 2)
    assert torch.equal(torch.inference_mode()(compiled)(x), torch.eye(4) * 2)


def test_a_loop_over_results_of_inference_mode():
    linear = torch.nn.Linear(4, 4)

    @torch.inference_mode()
    def step(token, cache):
        x = token.view(2, 4)[:, :4]
        cache.mul_(0.5).add_(x)
        return linear(x + cache).reshape(-1), cache

    found = []
    for call in (step, dl.compile(step, backend="aot_eager", fullgraph=True)):
        token, cache = torch.ones(8), torch.zeros(2, 4)
        for _ in range(3):
            token, cache = call(token, cache)
        found.append(token)
    torch.testing.assert_close(*(each.clone() for each in found))
