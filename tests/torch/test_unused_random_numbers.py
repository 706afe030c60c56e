"""Random numbers that the program draws and doesn't use: the generator is advanced as in eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from programs import check, compiled_by, tensor

DRAWS = {
    "rand": lambda x: torch.rand(3),
    "randint": lambda x: torch.randint(0, 5, (2,)),
    "rand_like": lambda x: torch.rand_like(x),
    "dropout": lambda x: F.dropout(x, 0.5, True),
    "bernoulli": lambda x: torch.bernoulli(torch.full((3,), 0.5)),
    "randperm": lambda x: torch.randperm(4),
    "uniform_": lambda x: x.clone().uniform_(),
    "of what is unused": lambda x: torch.rand(3) * 2 + 1,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_unused_random_numbers(draw, backend):
    def fn(x):
        draw(x)
        return x + torch.rand(4)

    check(compiled_by(backend)(fn), tensor(4))
    check(compiled_by(backend)(lambda x: (draw(x), x * 2)[1]), tensor(4))
