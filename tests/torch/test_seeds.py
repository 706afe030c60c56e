"""Seeds and generator states that a compiled function sets and restores."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import checked, tensor


@checked(tensor(3))
def test_seed_first(x):
    torch.manual_seed(3)
    return x + torch.rand_like(x)


@checked(tensor(3), graphs=2, breaks=1)
def test_seed_after_a_random_operator(x):
    y = torch.rand_like(x)
    torch.manual_seed(3)
    return y, torch.rand_like(x)


@checked(tensor(3))
def test_seed_after_other_operators(x):
    y = torch.relu(x @ x) * 2
    torch.manual_seed(3)
    return y + torch.rand_like(x)


@checked(tensor(3))
def test_two_seeds(x):
    torch.manual_seed(3)
    torch.random.manual_seed(4)
    return torch.rand_like(x)


@checked(tensor(3))
def test_generator_of_the_seed(x):
    return x + 1, torch.manual_seed(3) is torch.default_generator


@checked(tensor(3))
def test_fork_around_random_operators(x):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        y = torch.rand_like(x)
    return x + y


@checked(tensor(3), graphs=2, breaks=1)
def test_random_operator_after_a_fork(x):
    with torch.random.fork_rng():
        y = torch.rand_like(x)
    return y - torch.rand_like(x)


@checked(tensor(3))
def test_disabled_fork_rng(x):
    with torch.random.fork_rng(enabled=False):
        y = torch.rand_like(x)
    return y - torch.rand_like(x)


@checked(tensor(3), graphs=2, breaks=1)
def test_state_read_and_set_again(x):
    state = torch.get_rng_state()
    y = torch.rand_like(x)
    torch.set_rng_state(state)
    return y - torch.rand_like(x)


@checked(tensor(3))
def test_state_that_is_returned(x):
    state = torch.get_rng_state()
    return torch.rand_like(x), state


@checked(tensor(3), graphs=3, breaks=2)
def test_break_in_a_fork(x):
    with torch.random.fork_rng():
        y = torch.rand_like(x)
        dl.graph_break()
        z = torch.rand_like(x)
    return y + z


@checked(tensor(8), graphs=1, breaks=1)
def test_state_that_is_computed_with(x):
    state = torch.get_rng_state()
    return state[:8] * 2 + x


@pytest.mark.fails_on_data
@checked(tensor(3), others=[(-tensor(3).abs(),), (tensor(3).abs() + 1,)], graphs=(1, 2), breaks=None)
def test_seed_after_a_condition_that_may_raise(x):
    if x.sum() > 1:
        raise ValueError("too much")
    torch.manual_seed(5)
    return x + 1, torch.rand(2)


@checked(tensor(3))
def test_seed_that_torch_refuses(x):
    try:
        torch.manual_seed(2**70)
    except (RuntimeError, ValueError):
        return x + 1
    return x + 2


@pytest.mark.fails_on_data
def test_states_are_restored_when_the_frame_runs_again():
    def fn(x, at):
        with torch.random.fork_rng():
            torch.manual_seed(5)
            y = torch.rand_like(x)[at]
        return y

    compiled = dl.compile(fn, backend="eager")
    compiled(tensor(3), torch.tensor(1))
    torch.manual_seed(11)
    before = torch.get_rng_state()
    with pytest.raises(IndexError):
        compiled(tensor(3), torch.tensor(7))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_seeds_through_compilers(backend):
    def fn(x):
        with torch.random.fork_rng():
            torch.manual_seed(7)
            return torch.nn.functional.dropout(x, 0.5)

    compiled = dl.compile(fn, backend=backend, fullgraph=True)
    torch.manual_seed(1)
    after = torch.rand(2)
    torch.manual_seed(1)
    first, second = compiled(torch.ones(100)), compiled(torch.ones(100))
    assert torch.equal(first, second)
    assert torch.equal(torch.rand(2), after)
