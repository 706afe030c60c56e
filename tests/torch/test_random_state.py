"""Random numbers: the numbers drawn, and the state of every generator afterwards, are eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import dynamo_lite as dl
from programs import Program, check, checked, recompiling, tensor

DRAWS = {
    "rand": lambda x: torch.rand(3),
    "randn": lambda x: torch.randn(2, 2),
    "randint": lambda x: torch.randint(0, 10, (4,)),
    "randperm": lambda x: torch.randperm(5),
    "rand_like": lambda x: torch.rand_like(x),
    "randn_like": lambda x: torch.randn_like(x),
    "normal": lambda x: torch.normal(0.0, 1.0, (3,)),
    "normal_of_tensors": lambda x: torch.normal(x, x.abs() + 1),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "multinomial": lambda x: torch.multinomial(x.softmax(-1), 2),
    "poisson": lambda x: torch.poisson(x.abs()),
    "exponential_": lambda x: torch.empty(3).exponential_(),
    "uniform_": lambda x: torch.empty(3).uniform_(-1, 1),
    "normal_": lambda x: torch.empty(3).normal_(1, 2),
    "random_": lambda x: torch.empty(3, dtype=torch.int64).random_(0, 9),
    "bernoulli_": lambda x: torch.empty(3).bernoulli_(0.3),
    "dropout": lambda x: F.dropout(x, 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "init": lambda x: torch.nn.init.xavier_uniform_(torch.empty(3, 3)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], dropout_p=0.5),
    "pca": lambda x: torch.pca_lowrank(x, q=1)[1],
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_drawn_and_state_after(name):
    draw = DRAWS[name]

    def fn(x):
        a = draw(x)
        b = x + 1
        return a, b, draw(x)

    check(Program(fn, is_exact=name not in ("pca",)), tensor(3, 3), graphs=(1, 2), breaks=None)


@checked(tensor(2), graphs=2, breaks=1)
def test_draws_in_order_across_a_break(x):
    a = torch.rand(2)
    print("between")
    b = torch.rand(2)
    return a, b, x + torch.randn(2)


@checked(tensor(2), graphs=(1, 3), breaks=None)
def test_manual_seed_in_the_middle(x):
    a = torch.rand(2)
    torch.manual_seed(7)
    b = torch.rand(2)
    return a, b, x + 1, torch.initial_seed()


@checked(tensor(2), torch.Generator().manual_seed(1), graphs=(1, 3), breaks=None)
def test_generator_given(x, generator):
    return x + torch.rand(2, generator=generator), torch.rand(2)


@checked(tensor(2), graphs=(0, 3), breaks=None)
def test_generator_made_inside(x):
    generator = torch.Generator()
    generator.manual_seed(4)
    return x + torch.randn(2, generator=generator), torch.randperm(3, generator=generator)


@checked(tensor(2))
def test_draw_that_nobody_uses_still_moves_the_state(x):
    torch.rand(3)
    F.dropout(x, 0.5)
    return x + 1


@checked(torch.ones(2), others=[(-torch.ones(2),)], graphs=2, breaks=1)
def test_draw_in_a_branch_on_data(x):
    a = torch.rand(2)
    if x.sum() > 0:
        b = torch.rand(2)
    else:
        b = torch.randn(2)
    return a, b, torch.rand(1)


@checked(tensor(2), torch.tensor([0]), others=[(tensor(2), torch.tensor([5])), (tensor(2), torch.tensor([1]))])
def test_draw_before_an_error_on_the_data(x, i):
    a = torch.rand(2)
    try:
        return x[i] + a
    except IndexError:
        return a


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_after_a_graph_that_failed(backend):
    """The frame runs again in eager, with the generator as it was before the graph."""

    def fn(x, i):
        return F.dropout(x, 0.5).index_select(0, i)

    found = []
    for call in (fn, dl.compile(fn, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        call(torch.ones(8), torch.tensor([1]))
        with pytest.raises(IndexError):
            call(torch.ones(8), torch.tensor([9]))
        found.append(torch.rand(1))
    assert torch.equal(*found)


def attention(x, i, p):
    y = F.scaled_dot_product_attention(x, x, x, dropout_p=p)
    return F.embedding(i, y[0])


@pytest.mark.parametrize("p, draws", [(0.0, False), (0.5, True)])
def test_only_graphs_that_draw_save_the_state(p, draws):
    plan = str(dl.explain(attention)(torch.ones(1, 4, 4), torch.tensor([1]), p).plan)
    assert ("get_state" in plan) is draws, plan


def test_python_and_torch_random_mixed():
    import random

    def fn(x):
        n = random.randint(1, 5)
        return x * n + torch.rand(2), random.random()

    check(recompiling(fn), tensor(2), graphs=None, breaks=None)


@checked(tensor(2), graphs=(1, 3), breaks=None)
def test_distributions(x):
    d = torch.distributions.Normal(x, torch.ones(2), validate_args=False)
    return d.rsample(), d.log_prob(x + 1), d.sample((2,))
