"""Branches on data of which one side only raises: the graph takes the other side, and the frame raises as in eager."""

from __future__ import annotations

import pytest
import torch

import dynamo_lite as dl
from programs import check, checked, tensor, with_gradients, without_breaks
from shared_programs import twice_where_positive


def bad() -> torch.Tensor:
    return -tensor(3).abs() - 1


def good() -> torch.Tensor:
    return tensor(3).abs() + 1


class Refused(Exception):
    pass


@checked(good(), others=[(bad(),), (good(),)])
@without_breaks
@checked(bad(), others=[(good(),)])
def test_a_raise_on_data_keeps_one_graph(x):
    if (x < 0).any():
        raise ValueError(f"negative: {x.min()}")
    return x * 2


def test_an_assert_on_data_keeps_one_graph():
    check(without_breaks(twice_where_positive), good(), others=[(bad(),)])


def test_either_arm_of_a_branch_may_raise():
    def then(x):
        if x.sum() > 0:
            y = x * 2
        else:
            raise Refused(x.shape)
        return y

    def negated(x):
        if not x.sum() > 0:
            raise Refused("no") from KeyError(3)
        return x * 2

    def chained(x):
        if x.sum() > 0 and x.sum() < 100:
            return x * 2
        raise Refused("no")

    for fn in (then, negated):
        check(without_breaks(fn), good(), others=[(bad(),)])
    check(chained, good(), others=[(bad(),)], graphs=None, breaks=None)


@checked(good(), [], others=[(bad(), []), (good(), [1])])
def test_a_handler_catches_what_a_branch_on_data_raises(x, seen):
    seen.append("began")
    try:
        if (x < 0).any():
            seen.append("refused")
            raise Refused(len(seen))
        y = x * 2
    except Refused as error:
        y = x - error.args[0]
    finally:
        seen.append("end")
    return y + len(seen)


def test_callees_and_loops_raise_on_data():
    class Layer(torch.nn.Module):
        def __init__(self, limit):
            super().__init__()
            self.limit = limit

        def checked(self, x):
            if x.abs().max() > self.limit:
                raise Refused(self.limit)
            return x

        def forward(self, x):
            return self.checked(x) * 2

    layers = torch.nn.Sequential(*(Layer(5.0 * 2**n) for n in range(4)))

    def fn(x):
        return layers(x)

    check(fn, torch.ones(3), others=[(torch.full((3,), 100.0),)])


@checked(good(), graphs=2, breaks=1, others=[(bad(),), (good() + 100,)])
def test_branches_raise_before_and_after_a_break(x):
    if (x < 0).any():
        raise Refused("first")
    y = x * 2
    dl.graph_break()
    if (y > 100).any():
        raise Refused("second")
    return y + 1


def test_branches_raise_before_and_after_a_mutation():
    def before(x):
        if (x < 0).any():
            raise Refused("no")
        return x.add_(1) * 2

    def after(x):
        x.add_(1)
        if (x < 0).any():
            raise Refused("no")
        return x * 2

    for fn in (before, after):
        check(fn, good(), graphs=None, breaks=None, others=[(bad() - 3,)])


@checked(good(), others=[(bad(),)])
def test_the_condition_is_mutated_later(x):
    flag = (x < 0).any()
    if flag:
        raise Refused("no")
    flag.logical_not_()
    return x + 1, flag


def test_random_state_is_eagers_after_a_raise():
    def fn(x):
        noise = torch.rand(3)
        if (x < 0).any():
            raise Refused("no")
        return x + noise

    compiled = dl.compile(fn, backend="eager")
    for x in (good(), bad(), good()):
        torch.manual_seed(0)
        expected = fn(x) if (x > 0).all() else None
        after = torch.get_rng_state()
        torch.manual_seed(0)
        if expected is None:
            torch.rand(3)
            after = torch.get_rng_state()
            torch.manual_seed(0)
            with pytest.raises(Refused):
                compiled(x)
        else:
            assert torch.equal(compiled(x), expected)
        assert torch.equal(torch.get_rng_state(), after)


@checked(tensor(3), graphs=None, breaks=None)
def test_a_condition_without_a_single_truth_value(x):
    if x > 0:
        raise Refused("no")
    return x


def test_a_checkpointed_function_raises_on_data():
    def body(x):
        if (x < 0).any():
            raise Refused("no")
        return x.sin()

    def fn(x):
        return torch.utils.checkpoint.checkpoint(body, x * 1, use_reentrant=False)

    check(with_gradients(fn), good().requires_grad_(), graphs=None, breaks=None)
    with pytest.raises(Refused):
        dl.compile(fn, backend="eager")(bad())


@checked(tensor(3), good(), others=[(tensor(3), bad())])
def test_distributions_validate_their_arguments_in_one_graph(mean, scale):
    q = torch.distributions.Normal(mean, scale)
    p = torch.distributions.Normal(torch.zeros_like(mean), torch.ones_like(mean))
    return q.rsample(), torch.distributions.kl_divergence(q, p).sum(), q.log_prob(mean)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_raise_on_data_under_a_compiling_backend(backend):
    @dl.compile(backend=backend)
    def fn(x):
        if (x < 0).any():
            raise Refused(x.sum().item())
        return x * 2

    x = torch.ones(3, requires_grad=True)
    fn(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((3,), 2.0))
    with pytest.raises(Refused, match=r"-3\.0"):
        fn(-torch.ones(3, requires_grad=True))


def test_the_error_has_no_context_of_the_graph(caplog):
    @dl.compile(backend="eager")
    def fn(x):
        if (x < 0).any():
            raise Refused("no")
        return x * 2

    fn(good())
    with pytest.raises(Refused) as caught:
        fn(bad())
    assert caught.value.__context__ is None
    assert not caplog.records
